"""The versions of keys: right rows of an `as_of` join, each of which holds until the next one.

Those that the watermark has not passed wait in the order of their time. Of the others the last one
of each key is kept, in a table: nobody who comes later asks for one before it. A version that says
that its key is deleted holds like any other, and is met by nobody.
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
"""What the states are called."""
GONE = "__gone"
"""Whether a version says that its key is deleted."""
PART = "__part"
"""Beside the number of a row: which part of it this is. Of versions of one time the last holds."""
CAME = "__came"
"""The number of a version in the order in which they came: changes of a key may have one place."""
AT = "__at"
"""Which of the versions a row meets, by number; null: none."""


class Versions:
    """Right rows, by key and time."""

    def __init__(self, operation: nodes.Join, ttl_us: int | None, place: Place) -> None:
        import polars as pl

        self.side = Sided(operation, RIGHT, ordered=True)
        self._ttl_us = ttl_us
        self._state = place.state
        hidden = (self.side.time, self._number) if place.ordered else (self.side.time,)
        self.columns = (*self.side.columns, *hidden)
        """What is handed to who asks, but for the key."""
        waiting = {n: type for n, type in self.side.types.items() if n != self.side.time}
        waiting |= {PART: pl.Int64(), CAME: pl.Int64(), GONE: pl.Boolean()}
        layout = RunsLayout(waiting, self.side.key, lambda rows: rows)
        self._coming = place.state.runs(COMING, layout)
        self._came: int | None = None
        """The number of the next one; None: nobody has looked since the state was restored."""
        self._kept = place.state.table(
            VERSIONS, {name: self.side.types[name] for name in self.columns}
        )

    @property
    def rows(self) -> int:
        """How many wait."""
        return self._coming.rows

    def owed(self, *, asking: bool) -> int:
        """On how many rows the next call works that were there before."""
        clock_us = self._state.clock_us
        return self._kept.owed(clock_us) if asking else self._coming.owed(asking=False)

    def add(self, frame: pl.DataFrame) -> None:
        """Rows that are not late; one without key holds for nobody."""
        import polars as pl

        gone = (
            pl.col(DELETE).fill_null(False)
            if DELETE in frame.columns
            else pl.repeat(False, pl.len())
        )
        first = self._next()
        self._came = first + frame.height
        rows = self.side.rows(
            frame,
            pl.col(ORDER).struct.field("part").alias(PART),
            pl.int_range(first, first + pl.len()).alias(CAME),
            gone.alias(GONE),
        )
        lacks = self.side.lacks_key(rows)
        rows = rows if lacks is None else rows.filter(~lacks)
        self._coming.add(rows.rename({self.side.time: SLOT}))

    def is_due(self, until_us: int) -> bool:
        """Whether some have waited until then."""
        first = self._coming.first()
        return first is not None and first <= until_us

    def due(self, until_us: int) -> pl.DataFrame | None:
        """Those that have waited until then, with KEY, in the order in which they hold."""
        rows = self._coming.take(until_us) if self.is_due(until_us) else None
        if rows is None:
            return None
        if not self._is_in_order(rows):
            rows = rows.sort(SLOT, self._number, PART, CAME)
        rows = self.side.encoded(rows).hstack([rows[SLOT].alias(self.side.time)])
        return rows[[KEY, *self.columns, GONE]]

    def met(
        self, keys: pl.Series, times: pl.Series, due: pl.DataFrame | None
    ) -> tuple[pl.DataFrame, pl.Series]:
        """Versions, and which of them each row of these keys and times meets: null for none.

        The rows are sorted by time, and are behind what is kept. A null is the key of none.
        """
        found = self._kept.find(keys.drop_nulls() if keys.null_count() else keys)
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
        """Of each key keep the last one of these, in the place of the one before."""
        import polars as pl

        clock_us = self._state.clock_us
        if due is not None:
            last = _last_of_each(due)
            if last[GONE].any():
                self._kept.remove(last.filter(GONE)[KEY])
                last = last.filter(~pl.col(GONE))
            if self._ttl_us is not None:
                last = added(last, (pl.col(self.side.time) + self._ttl_us).alias(UNTIL))
            self._kept.put(last)
        if self._ttl_us is not None:
            self._kept.forget(clock_us)

    @property
    def _number(self) -> str:
        assert self.side.number is not None, "its rows are placed, for some have the same time"
        return self.side.number

    def _next(self) -> int:
        """The number of the next version that comes."""
        if self._came is not None:
            return self._came
        before = self._coming.read(NO_CLOCK_US, FOREVER_US)
        return 0 if before is None else int(before[CAME].max()) + 1  # type: ignore[arg-type]

    def _is_in_order(self, rows: pl.DataFrame) -> bool:
        """Whether rows sorted by time are so by their places, too; mostly they come like that."""
        now, before = rows.slice(1), rows.slice(0, rows.height - 1)
        same = now[SLOT] == before[SLOT]
        if not same.any():
            return True
        behind = now[CAME] < before[CAME]
        for name in (PART, self._number):
            behind = (now[name] < before[name]) | ((now[name] == before[name]) & behind)
        return not (same & behind).any()

    def _holding(self, versions: pl.DataFrame, at: pl.Series, times: pl.Series) -> pl.Series:
        """Those of them that are no deletes, and not too old for the rows."""
        if GONE in versions.columns and versions[GONE].any():
            at = _unless(at, versions[GONE][at])
        if self._ttl_us is not None:
            age = times - versions[self.side.time][at]
            at = _unless(at, age > self._ttl_us)
        return at


def _all(rows: pl.DataFrame, name: str, value: bool) -> pl.Series:
    """A column of these rows that is the same for all."""
    import polars as pl

    return pl.Series(name, [value]).new_from_index(0, rows.height)


def _last_of_each(rows: pl.DataFrame) -> pl.DataFrame:
    """The last row of each key."""
    # Texts are compared of those alone whose hash is there twice: the others are told by that.
    hashes = hashes_of(rows[KEY])
    if hashes.n_unique() == rows.height:
        return rows
    twice = hashes.is_duplicated()
    again = rows.filter(twice).unique(KEY, keep="last", maintain_order=True)
    return together([rows.filter(~twice), again])


def _before(keys: pl.Series, found: pl.DataFrame) -> pl.Series:
    """Of each key the number of its row among those that were found; null: it has none."""
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
    """Of each row the number of the last one of these that is not after it."""
    import polars as pl

    rows = pl.DataFrame({KEY: keys, time: times})
    ahead = projected(due, KEY, time, pl.int_range(pl.len(), dtype=pl.UInt32).alias(AT))
    return rows.join_asof(ahead, on=time, by=KEY, check_sortedness=False)[AT]


def _unless(at: pl.Series, wrong: pl.Series) -> pl.Series:
    if wrong.null_count():
        wrong = wrong.fill_null(False)
    return at.set(wrong, None)
