"""A simple state backend for trials: rows in one frame or in a dict. Not for large states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.core.api.state import (
    EXPIRY,
    KEY,
    KEY_INDEX,
    NO_CLOCK_US,
    SLOT,
    Entries,
    FrozenState,
    Redistribution,
    RunsLayout,
    StepCounters,
)
from headrace.core.api.state_sizes import StateSize

if TYPE_CHECKING:
    import polars as pl


class PlainState:
    """The state of one step (`StepState`); it is never frozen."""

    def __init__(self) -> None:
        self.clock_us = NO_CLOCK_US
        self.counters = StepCounters()
        self.buffered_sizes: dict[str, Callable[[], StateSize]] = {}

    def open_runs(self, name: str, layout: RunsLayout) -> PlainRuns:
        """Open a state of runs."""
        return PlainRuns(layout)

    def open_table(
        self, name: str, columns: Mapping[str, pl.DataType], group: tuple[str, ...] | None = None
    ) -> PlainTable:
        """Open a table."""
        return PlainTable(columns)

    def open_entries(self, name: str, spread: Redistribution) -> Entries:
        """Open entries."""
        return PlainEntries()

    def get_restored_columns(self, name: str) -> Mapping[str, pl.DataType] | None:
        """Return None: no state is restored."""
        return None

    def measure_sizes(self) -> Mapping[str, StateSize]:
        """Return nothing: sizes are not measured."""
        return {}

    def freeze(self) -> FrozenState:
        """Raise NotImplementedError."""
        raise NotImplementedError("the state of a trial cannot be frozen")

    def close(self) -> None:
        """Do nothing."""


class PlainEntries:
    """Rows without a key (`Entries`)."""

    rows: pl.DataFrame | None = None


class PlainRuns:
    """Rows filed under times (`SortedRuns`)."""

    def __init__(self, layout: RunsLayout) -> None:
        import polars as pl

        self._layout = layout
        self._rows = pl.DataFrame(schema={**layout.columns, SLOT: pl.Int64()})

    def add(self, frame: pl.DataFrame) -> None:
        """File rows."""
        self._rows = self._rows.vstack(frame.select(self._rows.columns)).sort(
            SLOT, maintain_order=True
        )

    def get_first_slot(self) -> int | None:
        """Return the earliest slot that has rows."""
        found: Any = self._rows[SLOT].min()
        return None if found is None else int(found)

    def take(self, until: int) -> pl.DataFrame | None:
        """Remove and return the rows of slots up to `until`."""
        found = self._select_range(None, until)
        self.drop(until)
        return found

    def read(self, after: int, until: int) -> pl.DataFrame | None:
        """Return the rows of slots after `after` and up to `until`."""
        return self._select_range(after, until)

    def drop(self, until: int) -> None:
        """Remove the rows of slots up to `until`."""
        self._rows = self._rows.filter(self._rows[SLOT] > until)

    def read_keys(self, keys: pl.DataFrame, after: int) -> pl.DataFrame | None:
        """Return the rows of these keys in slots after `after`."""
        found = self._rows.filter(self._rows[SLOT] > after)
        by = list(self._layout.key)
        found = found.join(keys, on=by, how="semi", nulls_equal=True) if by else found
        return found if found.height else None

    def take_keys(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return the rows of these keys."""
        found, by = self.read_keys(keys, NO_CLOCK_US), list(self._layout.key)
        other_rows = self._rows.join(keys, on=by, how="anti", nulls_equal=True) if by else None
        self._rows = self._rows.clear() if other_rows is None else other_rows
        return None if found is None else self._layout.merge(found)

    def compact(self) -> None:
        """Do nothing: rows are merged when they are read."""

    def estimate_deferred_rows(self, *, for_lookup: bool) -> int:
        """Return 0: no work is ever deferred."""
        return 0

    @property
    def rows(self) -> int:
        """The number of stored rows."""
        return self._rows.height

    def _select_range(self, after: int | None, until: int) -> pl.DataFrame | None:
        slots = self._rows[SLOT]
        among = slots <= until if after is None else (slots <= until) & (slots > after)
        found = self._rows.filter(among)
        return self._layout.merge(found) if found.height else None


class PlainTable:
    """One row per key (`KeyedTable`)."""

    def __init__(self, columns: Mapping[str, pl.DataType]) -> None:
        import polars as pl

        self._columns = {KEY: pl.String(), **columns, EXPIRY: pl.Int64()}
        self._rows: dict[str, dict[str, Any]] = {}
        self._now_us = NO_CLOCK_US

    def find(self, keys: pl.Series) -> pl.DataFrame:
        """Return the rows of these keys."""
        import polars as pl

        found = [(at, self._rows[key]) for at, key in enumerate(keys) if self._has(key)]
        frame = pl.DataFrame([row for _, row in found], schema=self._columns, orient="row")
        return frame.insert_column(
            0, pl.Series(KEY_INDEX, [at for at, _ in found], dtype=pl.UInt32)
        )

    def put(self, frame: pl.DataFrame) -> None:
        """Insert or replace rows."""
        for row in frame.rows(named=True):
            self._rows[row[KEY]] = {EXPIRY: None, **row}

    def add(self, frame: pl.DataFrame) -> pl.Series:
        """Insert the rows of new keys."""
        import polars as pl

        inserted = list[int]()
        for at, row in enumerate(frame.rows(named=True)):
            if not self._has(row[KEY]):
                self._rows[row[KEY]] = {EXPIRY: None, **row}
                inserted.append(at)
        return pl.Series(inserted, dtype=pl.UInt32)

    def remove(self, keys: pl.Series) -> None:
        """Remove the rows of these keys."""
        for key in keys:
            self._rows.pop(key, None)

    def expire(self, now_us: int) -> None:
        """Remove the expired rows."""
        self._now_us = max(self._now_us, now_us)
        self._rows = {key: row for key, row in self._rows.items() if self._has(key)}

    def estimate_deferred_rows(self, now_us: int) -> int:
        """Return 0: no work is ever deferred."""
        return 0

    @property
    def rows(self) -> int:
        """The number of keys."""
        return len(self._rows)

    def _has(self, key: str) -> bool:
        row = self._rows.get(key)
        return row is not None and (row[EXPIRY] is None or row[EXPIRY] >= self._now_us)
