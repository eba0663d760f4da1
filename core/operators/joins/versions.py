"""The versions of keys: right rows of an `as_of` join, each valid until the next one.

Versions that the watermark has not passed wait in the order of their time. Of the others the last
one of each key is stored in a table: no later left row matches an earlier one. A version that
deletes its key is valid like any other, but matches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, FOREVER_US, ORDER
from headrace.core.frames import added, projected, together
from headrace.core.keygroups import hashes_of
from headrace.core.operators.joins.sides import RIGHT, Sided
from headrace.core.operators.place import Place
from headrace.core.plan import nodes
from headrace.core.state import ASKED, KEY, NO_CLOCK_US, SLOT, UNTIL, RunsLayout

if TYPE_CHECKING:
    import polars as pl

COMING, VERSIONS = "right", "versions"
"""The names of the states."""
GONE = "__gone"
"""Whether a version deletes its key."""
PART = "__part"
"""The part number of a row, in addition to its number; of versions of one time the last is valid.
"""
CAME = "__came"
"""The arrival number of a version: changelog rows of a key may have equal positions."""
AT = "__at"
"""The number of the version that a row matches; null: none."""


class Versions:
    """Right rows, by key and time."""

    def __init__(self, operation: nodes.Join, ttl_us: int | None, place: Place) -> None:
        import polars as pl

        self.side = Sided(operation, RIGHT, ordered=True)
        self._ttl_us = ttl_us
        self._state = place.state
        hidden = (self.side.time, self._number) if place.ordered else (self.side.time,)
        self.columns = (*self.side.columns, *hidden)
        """The columns returned for matches, without the key."""
        waiting = {n: type for n, type in self.side.types.items() if n != self.side.time}
        waiting |= {PART: pl.Int64(), CAME: pl.Int64(), GONE: pl.Boolean()}
        layout = RunsLayout(waiting, self.side.key, lambda rows: rows)
        self._waiting = place.state.runs(COMING, layout)
        self._next_arrival: int | None = None
        """The arrival number of the next version; None: unknown since the restore."""
        self._table = place.state.table(
            VERSIONS, {name: self.side.types[name] for name in self.columns}
        )

    @property
    def rows(self) -> int:
        """The number of waiting versions."""
        return self._waiting.rows

    def owed(self, *, asking: bool) -> int:
        """Return the number of earlier rows that the next call works on."""
        clock_us = self._state.clock_us
        return self._table.owed(clock_us) if asking else self._waiting.owed(asking=False)

    def add(self, frame: pl.DataFrame) -> None:
        """Buffer rows that are not late; a row without key matches nothing."""
        import polars as pl

        gone = (
            pl.col(DELETE).fill_null(False)
            if DELETE in frame.columns
            else pl.repeat(False, pl.len())
        )
        first = self._next()
        self._next_arrival = first + frame.height
        rows = self.side.rows(
            frame,
            pl.col(ORDER).struct.field("part").alias(PART),
            pl.int_range(first, first + pl.len()).alias(CAME),
            gone.alias(GONE),
        )
        lacks = self.side.lacks_key(rows)
        rows = rows if lacks is None else rows.filter(~lacks)
        self._waiting.add(rows.rename({self.side.time: SLOT}))

    def is_due(self, until_us: int) -> bool:
        """Whether the watermark has passed any waiting version."""
        first = self._waiting.first()
        return first is not None and first <= until_us

    def due(self, until_us: int) -> pl.DataFrame | None:
        """Remove and return the versions due up to this time, with KEY, in order of validity."""
        rows = self._waiting.take(until_us) if self.is_due(until_us) else None
        if rows is None:
            return None
        if not self._is_in_order(rows):
            rows = rows.sort(SLOT, self._number, PART, CAME)
        rows = self.side.encoded(rows).hstack([rows[SLOT].alias(self.side.time)])
        return rows[[KEY, *self.columns, GONE]]

    def met(
        self, keys: pl.Series, times: pl.Series, due: pl.DataFrame | None
    ) -> tuple[pl.DataFrame, pl.Series]:
        """Return versions, and the number of the one that each row matches; null for none.

        The rows, given by their keys and times, are sorted by time, and later than all stored
        versions. A null key matches nothing.
        """
        found = self._table.find(keys.drop_nulls() if keys.null_count() else keys)
        kept = found[list(self.columns)]
        if due is None:
            return kept, self._holding(kept, _before(keys, found), times)
        rows = _met(keys, times, due, self.side.time)
        versions = due[[*self.columns, GONE]]
        if kept.height:
            versions = together([kept.hstack([_all(kept, GONE, False)]), versions])
            rows = rows + kept.height
            rows = rows.zip_with(rows.is_not_null(), _before(keys, found))
        return versions, self._holding(versions, rows, times)

    def keep(self, due: pl.DataFrame | None) -> None:
        """Store the last one of these versions of each key, replacing the one before."""
        import polars as pl

        clock_us = self._state.clock_us
        if due is not None:
            last = _last_of_each(due)
            if last[GONE].any():
                self._table.remove(last.filter(GONE)[KEY])
                last = last.filter(~pl.col(GONE))
            if self._ttl_us is not None:
                last = added(last, (pl.col(self.side.time) + self._ttl_us).alias(UNTIL))
            self._table.put(last)
        if self._ttl_us is not None:
            self._table.forget(clock_us)

    @property
    def _number(self) -> str:
        assert self.side.number is not None, "versions of the same time need a position"
        return self.side.number

    def _next(self) -> int:
        """Return the arrival number of the next version."""
        if self._next_arrival is not None:
            return self._next_arrival
        before = self._waiting.read(NO_CLOCK_US, FOREVER_US)
        return 0 if before is None else int(before[CAME].max()) + 1  # type: ignore[arg-type]

    def _is_in_order(self, rows: pl.DataFrame) -> bool:
        """Whether rows sorted by time are sorted by position, too, as they usually are."""
        now, before = rows.slice(1), rows.slice(0, rows.height - 1)
        same = now[SLOT] == before[SLOT]
        if not same.any():
            return True
        out_of_order = now[CAME] < before[CAME]
        for name in (PART, self._number):
            out_of_order = (now[name] < before[name]) | ((now[name] == before[name]) & out_of_order)
        return not (same & out_of_order).any()

    def _holding(self, versions: pl.DataFrame, at: pl.Series, times: pl.Series) -> pl.Series:
        """Return the matches without deletes and expired versions."""
        if GONE in versions.columns and versions[GONE].any():
            at = _unless(at, versions[GONE][at])
        if self._ttl_us is not None:
            age = times - versions[self.side.time][at]
            at = _unless(at, age > self._ttl_us)
        return at


def _all(rows: pl.DataFrame, name: str, value: bool) -> pl.Series:
    """Return a constant column for these rows."""
    import polars as pl

    return pl.Series(name, [value]).new_from_index(0, rows.height)


def _last_of_each(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the last row of each key."""
    # Strings are compared only where hashes are equal: a unique hash means a unique key.
    hashes = hashes_of(rows[KEY])
    if hashes.n_unique() == rows.height:
        return rows
    twice = hashes.is_duplicated()
    again = rows.filter(twice).unique(KEY, keep="last", maintain_order=True)
    return together([rows.filter(~twice), again])


def _before(keys: pl.Series, found: pl.DataFrame) -> pl.Series:
    """Return the number of each key's row among the found ones; null if it has none."""
    import polars as pl

    rows = pl.int_range(found.height, dtype=pl.UInt32, eager=True)
    if found.height == len(keys):
        return rows
    none = pl.Series(AT, [None], dtype=pl.UInt32).new_from_index(0, len(keys))
    asked = found[ASKED]
    if keys.null_count():
        asked = keys.is_not_null().arg_true()[asked]
    return none.scatter(asked, rows)


def _met(keys: pl.Series, times: pl.Series, due: pl.DataFrame, time: str) -> pl.Series:
    """Return the number of the last version of each row's key that is not after the row."""
    import polars as pl

    rows = pl.DataFrame({KEY: keys, time: times})
    ahead = projected(due, KEY, time, pl.int_range(pl.len(), dtype=pl.UInt32).alias(AT))
    return rows.join_asof(ahead, on=time, by=KEY, check_sortedness=False)[AT]


def _unless(at: pl.Series, wrong: pl.Series) -> pl.Series:
    if wrong.null_count():
        wrong = wrong.fill_null(False)
    return at.set(wrong, None)
