"""Rows of a table that are on disk, by key and by expiry.

Two column families: `rows:NAME` has the rows under their keys; `until:NAME` has the keys under
their expiry times, because expired rows that are never looked up would otherwise never be found.
Every key starts with its key group, two bytes, so that a range of groups is a range of keys.

    rows:    group, key        ->  row
    until:   time, group, key  ->  nothing

A row that was put again has several times; only one of them is the row's expiry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from headrace.core.api.state import EXPIRY, KEY, KEY_INDEX
from headrace.core.api.state_sizes import StateSize
from headrace.core.types.key_groups import compute_key_groups
from headrace.state.memory.row_filters import add_expiry_column
from headrace.state.rocks.database import RocksDatabase
from headrace.state.rocks.row_codec import decode_rows, encode_rows

if TYPE_CHECKING:
    import polars as pl

BATCH_ROWS = 1 << 14
"""Maximum number of rows per batch when all rows are read, and when expired rows are removed."""

_TIME_OFFSET = 1 << 63
"""Offset added to a time, so that its big-endian bytes sort like the times."""

_NEVER_US = _TIME_OFFSET - 1


class DiskRows:
    """Rows of one table in the database of its step, which is created with the first rows."""

    def __init__(
        self,
        database: Callable[[], RocksDatabase],
        name: str,
        columns: Mapping[str, pl.DataType],
        key_groups: int,
        *,
        are_there: bool = False,
    ) -> None:
        import polars as pl

        self._open_database = database
        self._row_family, self._expiry_family = f"rows:{name}", f"until:{name}"
        self.columns: dict[str, pl.DataType] = {**columns, EXPIRY: pl.Int64()}
        self._key_groups = key_groups
        self.has_rows = are_there
        """Whether any rows were ever put."""
        self._next_expiry_us: int | None = None if are_there else _NEVER_US
        """No row expires before this time; None: it must be looked up."""
        self.size = StateSize()
        """Approximate size at the latest put, or at the first lookup."""

    def with_database(self, database: Callable[[], RocksDatabase]) -> DiskRows:
        """Return the same rows in a copy of the database."""
        columns = {name: type for name, type in self.columns.items() if name != EXPIRY}
        name = self._row_family.removeprefix("rows:")
        return DiskRows(database, name, columns, self._key_groups, are_there=self.has_rows)

    @property
    def row_count(self) -> int:
        """Approximate number of rows."""
        return self._open_database().estimate_count(self._row_family) if self.has_rows else 0

    def put(self, rows: pl.DataFrame) -> None:
        """Put these rows, each key once."""
        import polars as pl

        if not rows.height:
            return
        if EXPIRY not in rows.columns:
            rows = add_expiry_column(rows)
        self.has_rows = True
        numbered = rows.with_columns(self._compute_groups(rows[KEY])).sort(_GROUP_COLUMN, KEY)
        self._open_database().put(
            self._row_family, _encode_keys(numbered), encode_rows(numbered[list(self.columns)])
        )
        timed = numbered.filter(pl.col(EXPIRY).is_not_null()).sort(EXPIRY, _GROUP_COLUMN, KEY)
        if timed.height:
            keys = list(map(bytes.__add__, _encode_times(timed[EXPIRY]), _encode_keys(timed)))
            self._open_database().put(self._expiry_family, keys, [b""] * len(keys))
            if self._next_expiry_us is not None:
                self._next_expiry_us = min(self._next_expiry_us, _decode_time(keys[0]))
        self._measure()

    def get(self, keys: pl.Series) -> pl.DataFrame:
        """Return the rows of these keys, in the order of the keys, with KEY_INDEX."""
        import polars as pl

        requests = keys.to_frame(KEY).with_columns(self._compute_groups(keys))
        # Reading in the order on disk takes half of the time.
        order = requests.with_row_index(KEY_INDEX).sort(_GROUP_COLUMN, KEY)
        values = (
            self._open_database().get(self._row_family, _encode_keys(order)) if len(keys) else []
        )
        if not self.size.rows:
            self._measure()
        known = [number for number, line in enumerate(values) if line is not None]
        if not known:
            none = {KEY_INDEX: pl.UInt32(), KEY: pl.String(), **self.columns}
            return pl.DataFrame(schema=none)
        rows = decode_rows([line for line in values if line is not None], self.columns)
        requests = order[[KEY_INDEX, KEY]][known]
        return requests.hstack(rows.get_columns()).sort(KEY_INDEX)

    def remove(self, keys: pl.Series) -> None:
        if self.has_rows and len(keys):
            keys = keys.unique()
            removed = keys.to_frame(KEY).with_columns(self._compute_groups(keys))
            self._open_database().remove(
                self._row_family, _encode_keys(removed.sort(_GROUP_COLUMN, KEY))
            )

    def expire(self, now_us: int) -> None:
        """Remove expired rows, at most BATCH_ROWS of them."""
        if not self.has_rows or (
            self._next_expiry_us is not None and self._next_expiry_us >= now_us
        ):
            return
        database = self._open_database()
        if not database.has_family(self._expiry_family):
            self._next_expiry_us = _NEVER_US
            return
        entries = database.iterate_entries(self._expiry_family)
        over = list(
            islice(takewhile(lambda entry: _decode_time(entry[0]) < now_us, entries), BATCH_ROWS)
        )
        if over:
            self._remove_expired([key[8:] for key, _ in over], now_us)
            database.remove_before(self._expiry_family, over[-1][0] + b"\0")
        first_entry = next(database.iterate_entries(self._expiry_family), None)
        self._next_expiry_us = _NEVER_US if first_entry is None else _decode_time(first_entry[0])

    def read_all(self, groups: range | None = None) -> Iterator[pl.DataFrame]:
        """Yield all rows whose keys are in those key groups, in frames of at most BATCH_ROWS."""
        import polars as pl

        if not self.has_rows:
            return
        start, stop = (groups.start, groups.stop) if groups else (0, self._key_groups)
        entries = self._open_database().iterate_entries(self._row_family, start.to_bytes(2, "big"))
        end = stop.to_bytes(2, "big")
        while lot := list(islice(entries, BATCH_ROWS)):
            inside = [entry for entry in lot if entry[0] < end]
            if inside:
                keys = pl.Series(KEY, [key[2:] for key, _ in inside]).cast(pl.String)
                rows = decode_rows([line for _, line in inside], self.columns)
                yield pl.DataFrame([keys, *rows.get_columns()])
            if len(inside) < len(lot):
                return

    def _measure(self) -> None:
        """Update the size from the database; only the thread that works on the database may do
        this.
        """
        database = self._open_database()
        until = StateSize(0, *database.measure_bytes(self._expiry_family))
        self.size = (
            StateSize(
                database.estimate_count(self._row_family), *database.measure_bytes(self._row_family)
            )
            + until
        )

    def _remove_expired(self, keys: Sequence[bytes], now_us: int) -> None:
        """Remove the rows of these keys that have expired; others were put again since."""
        import polars as pl

        keys = sorted(set(keys))
        found = self._open_database().get(self._row_family, keys)
        there = [(key, line) for key, line in zip(keys, found, strict=True) if line is not None]
        if there:
            until = decode_rows([line for _, line in there], self.columns)[EXPIRY]
            passed = (until < now_us).fill_null(value=False).cast(pl.Boolean)
            over = [key for (key, _), is_over in zip(there, passed, strict=True) if is_over]
            if over:
                self._open_database().remove(self._row_family, over)

    def _compute_groups(self, keys: pl.Series) -> pl.Series:
        return compute_key_groups(keys, self._key_groups).alias(_GROUP_COLUMN)


_GROUP_COLUMN = "__group"


def _encode_keys(rows: pl.DataFrame) -> list[bytes]:
    """Return the encoded keys of these rows, in order."""
    import polars as pl

    prefixes = {group: group.to_bytes(2, "big") for group in rows[_GROUP_COLUMN].unique()}
    keys = rows[KEY].cast(pl.Binary).to_list()
    return [
        prefixes[group] + key
        for group, key in zip(rows[_GROUP_COLUMN].to_list(), keys, strict=True)
    ]


def _encode_times(times: pl.Series) -> list[bytes]:
    return [(time + _TIME_OFFSET).to_bytes(8, "big") for time in times.to_list()]


def _decode_time(key: bytes) -> int:
    return int.from_bytes(key[:8], "big") - _TIME_OFFSET
