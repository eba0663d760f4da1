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

from headrace.core.keygroups import groups_of
from headrace.core.sizes import Size
from headrace.core.state import ASKED, KEY, UNTIL
from headrace.state.rocks.database import Database
from headrace.state.rocks.rows import lines, rows_of

if TYPE_CHECKING:
    import polars as pl

AT_ONCE = 1 << 14
"""Maximum number of rows per batch when all rows are read, and when expired rows are removed."""

_ZERO = 1 << 63
"""Offset added to a time, so that its big-endian bytes sort like the times."""

_NEVER_US = _ZERO - 1


class ColdRows:
    """Rows of one table in the database of its step, which is created with the first rows."""

    def __init__(
        self,
        database: Callable[[], Database],
        name: str,
        columns: Mapping[str, pl.DataType],
        key_groups: int,
        *,
        are_there: bool = False,
    ) -> None:
        import polars as pl

        self._open = database
        self._rows, self._untils = f"rows:{name}", f"until:{name}"
        self.columns: dict[str, pl.DataType] = {**columns, UNTIL: pl.Int64()}
        self._key_groups = key_groups
        self.are_there = are_there
        """Whether any rows were ever put."""
        self._next_us: int | None = None if are_there else _NEVER_US
        """No row expires before this time; None: it must be looked up."""
        self.size = Size()
        """Approximate size at the latest put, or at the first lookup."""

    def elsewhere(self, database: Callable[[], Database]) -> ColdRows:
        """Return the same rows in a copy of the database."""
        columns = {name: type for name, type in self.columns.items() if name != UNTIL}
        name = self._rows.removeprefix("rows:")
        return ColdRows(database, name, columns, self._key_groups, are_there=self.are_there)

    @property
    def count(self) -> int:
        """Approximate number of rows."""
        return self._open().count(self._rows) if self.are_there else 0

    def put(self, rows: pl.DataFrame) -> None:
        """Put these rows, each key once."""
        import polars as pl

        if not rows.height:
            return
        if UNTIL not in rows.columns:
            rows = rows.with_columns(pl.lit(None, dtype=pl.Int64).alias(UNTIL))
        self.are_there = True
        numbered = rows.with_columns(self._group(rows[KEY])).sort(_GROUP, KEY)
        self._open().put(self._rows, _keys(numbered), lines(numbered[list(self.columns)]))
        timed = numbered.filter(pl.col(UNTIL).is_not_null()).sort(UNTIL, _GROUP, KEY)
        if timed.height:
            keys = list(map(bytes.__add__, _times(timed[UNTIL]), _keys(timed)))
            self._open().put(self._untils, keys, [b""] * len(keys))
            if self._next_us is not None:
                self._next_us = min(self._next_us, _time(keys[0]))
        self._measure()

    def get(self, keys: pl.Series) -> pl.DataFrame:
        """Return the rows of these keys, in the order of the keys, with KEY_INDEX."""
        import polars as pl

        asked = keys.to_frame(KEY).with_columns(self._group(keys))
        # Reading in the order on disk takes half of the time.
        order = asked.with_row_index(ASKED).sort(_GROUP, KEY)
        found = self._open().get(self._rows, _keys(order)) if len(keys) else []
        if not self.size.rows:
            self._measure()
        known = [number for number, line in enumerate(found) if line is not None]
        if not known:
            none = {ASKED: pl.UInt32(), KEY: pl.String(), **self.columns}
            return pl.DataFrame(schema=none)
        rows = rows_of([line for line in found if line is not None], self.columns)
        asked = order[[ASKED, KEY]][known]
        return asked.hstack(rows.get_columns()).sort(ASKED)

    def remove(self, keys: pl.Series) -> None:
        if self.are_there and len(keys):
            keys = keys.unique()
            gone = keys.to_frame(KEY).with_columns(self._group(keys))
            self._open().remove(self._rows, _keys(gone.sort(_GROUP, KEY)))

    def forget(self, now_us: int) -> None:
        """Remove expired rows, at most BATCH_ROWS of them."""
        if not self.are_there or (self._next_us is not None and self._next_us >= now_us):
            return
        database = self._open()
        if not database.has(self._untils):
            self._next_us = _NEVER_US
            return
        entries = database.entries(self._untils)
        over = list(islice(takewhile(lambda entry: _time(entry[0]) < now_us, entries), AT_ONCE))
        if over:
            self._drop([key[8:] for key, _ in over], now_us)
            database.remove_before(self._untils, over[-1][0] + b"\0")
        left = next(database.entries(self._untils), None)
        self._next_us = _NEVER_US if left is None else _time(left[0])

    def all(self, groups: range | None = None) -> Iterator[pl.DataFrame]:
        """Yield all rows whose keys are in those key groups, in frames of at most BATCH_ROWS."""
        import polars as pl

        if not self.are_there:
            return
        start, stop = (groups.start, groups.stop) if groups else (0, self._key_groups)
        entries = self._open().entries(self._rows, start.to_bytes(2, "big"))
        end = stop.to_bytes(2, "big")
        while lot := list(islice(entries, AT_ONCE)):
            inside = [entry for entry in lot if entry[0] < end]
            if inside:
                keys = pl.Series(KEY, [key[2:] for key, _ in inside]).cast(pl.String)
                rows = rows_of([line for _, line in inside], self.columns)
                yield pl.DataFrame([keys, *rows.get_columns()])
            if len(inside) < len(lot):
                return

    def _measure(self) -> None:
        """Update the size from the database; only the thread that works on the database may do
        this.
        """
        database = self._open()
        until = Size(0, *database.bytes(self._untils))
        self.size = Size(database.count(self._rows), *database.bytes(self._rows)) + until

    def _drop(self, keys: Sequence[bytes], now_us: int) -> None:
        """Remove the rows of these keys that have expired; others were put again since."""
        import polars as pl

        keys = sorted(set(keys))
        found = self._open().get(self._rows, keys)
        there = [(key, line) for key, line in zip(keys, found, strict=True) if line is not None]
        if there:
            until = rows_of([line for _, line in there], self.columns)[UNTIL]
            passed = (until < now_us).fill_null(value=False).cast(pl.Boolean)
            over = [key for (key, _), is_over in zip(there, passed, strict=True) if is_over]
            if over:
                self._open().remove(self._rows, over)

    def _group(self, keys: pl.Series) -> pl.Series:
        return groups_of(keys, self._key_groups).alias(_GROUP)


_GROUP = "__group"


def _keys(rows: pl.DataFrame) -> list[bytes]:
    """Return the encoded keys of these rows, in order."""
    import polars as pl

    prefixes = {group: group.to_bytes(2, "big") for group in rows[_GROUP].unique()}
    keys = rows[KEY].cast(pl.Binary).to_list()
    return [prefixes[group] + key for group, key in zip(rows[_GROUP].to_list(), keys, strict=True)]


def _times(times: pl.Series) -> list[bytes]:
    return [(time + _ZERO).to_bytes(8, "big") for time in times.to_list()]


def _time(key: bytes) -> int:
    return int.from_bytes(key[:8], "big") - _ZERO
