"""The rows of a table that are on disk, by key, and by the time until when they are remembered.

Two column families: `rows:NAME` has the rows under their keys, `until:NAME` the keys under the
times at which they may go, for nothing else would ever come by a row that nobody asks for. Every
key begins with its key group, two bytes, so that a range of groups is a range of keys.

    rows:    group, key        ->  row
    until:   time, group, key  ->  nothing

A row that was put again has more than one time; only one of them is that of the row.
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
"""So many rows are read at a time where all of them are, and forgotten where time has passed."""

_ZERO = 1 << 63
"""What is added to a time, so that its bytes are in order."""

_NEVER_US = _ZERO - 1


class ColdRows:
    """The rows of one table in the database of its step, which is made with the first ones."""

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
        """Whether there have ever been any."""
        self._next_us: int | None = None if are_there else _NEVER_US
        """No row's time is over before that; None: it has to be looked up."""
        self.size = Size()
        """About how much they were when some were last put, or looked for at first."""

    def elsewhere(self, database: Callable[[], Database]) -> ColdRows:
        """The same rows, in a copy of the database."""
        columns = {name: type for name, type in self.columns.items() if name != UNTIL}
        name = self._rows.removeprefix("rows:")
        return ColdRows(database, name, columns, self._key_groups, are_there=self.are_there)

    @property
    def count(self) -> int:
        """About how many there are."""
        return self._open().count(self._rows) if self.are_there else 0

    def put(self, rows: pl.DataFrame) -> None:
        """Keep these rows, each key once."""
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
        """The rows of these keys that are there, in their order, with ASKED."""
        import polars as pl

        asked = keys.to_frame(KEY).with_columns(self._group(keys))
        # In the order in which they are on disk it takes half of the time.
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
        """Forget these keys."""
        if self.are_there and len(keys):
            keys = keys.unique()
            gone = keys.to_frame(KEY).with_columns(self._group(keys))
            self._open().remove(self._rows, _keys(gone.sort(_GROUP, KEY)))

    def forget(self, now_us: int) -> None:
        """Remove rows whose time has passed, as many as are removed at a time."""
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
        """All rows, whose keys are of those key groups, in frames of not too many."""
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
        """Ask the database, in the thread that works on it: others may not."""
        database = self._open()
        until = Size(0, *database.bytes(self._untils))
        self.size = Size(database.count(self._rows), *database.bytes(self._rows)) + until

    def _drop(self, keys: Sequence[bytes], now_us: int) -> None:
        """Remove those of these whose row has passed: it may have been put again."""
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
    """The keys of these rows, in their order."""
    import polars as pl

    prefixes = {group: group.to_bytes(2, "big") for group in rows[_GROUP].unique()}
    keys = rows[KEY].cast(pl.Binary).to_list()
    return [prefixes[group] + key for group, key in zip(rows[_GROUP].to_list(), keys, strict=True)]


def _times(times: pl.Series) -> list[bytes]:
    return [(time + _ZERO).to_bytes(8, "big") for time in times.to_list()]


def _time(key: bytes) -> int:
    return int.from_bytes(key[:8], "big") - _ZERO
