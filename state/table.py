"""Table in memory: a log of frames, and a hash table with the row of each key in the log.

New rows are appended; the rows that they replace stay as garbage until there is more garbage than
live rows, and then the live rows are copied together. So a put touches little, frames never change,
and the log as it stands is the frozen table: the last row of a key counts, unless its number is
among the removed ones, or it has expired.

A row whose EXPIRY has passed is never found. It leaves the memory in the next sweep: when half of
the rows that the last sweep left have expired, or there are twice as many rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from headrace.core.frames import compacted
from headrace.core.keygroups import hashes_of
from headrace.core.sizes import Size
from headrace.core.state import ASKED, KEY, NO_CLOCK_US, UNTIL
from headrace.state.index import Index
from headrace.state.log import ROW, FrozenTable, timed

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.state import Table

LEAST_GARBAGE = 4096
FEWER = 4
"""A frame of the log is merged with the one before it if that is at most this many times as long.
"""

SOON_ROWS = 2000
"""To put or remove fewer rows leaves work that takes long to the next call."""


class MemoryTable:
    """Live table. `group`: the columns that give a row's key group, if KEY does not."""

    def __init__(
        self, columns: Mapping[str, pl.DataType], group: tuple[str, ...] | None = None
    ) -> None:
        self._columns = dict(columns)
        self._group = group
        self._index = Index()
        self._frames: list[pl.DataFrame] = []
        self._height = 0
        self._whole: pl.DataFrame | None = None
        self._removed: list[pl.Series] = []
        self._now_us = NO_CLOCK_US
        self._times = False
        """Whether any row ever had EXPIRY."""
        self._sweep_us: int | None = None
        self._swept_rows = 0
        self._last: tuple[pl.Series, pl.Series, pl.Series] | None = None
        self.swept: list[pl.Series] | None = None
        """If a list: keys of the rows that a sweep dropped are appended."""

    def find(self, keys: pl.Series) -> pl.DataFrame:
        """Return the rows of those keys, in the order of the keys."""
        import polars as pl

        if not self._height:
            return self._nothing()
        _, slots = self._looked_up(keys)
        asked = pl.int_range(len(keys), dtype=pl.UInt32, eager=True)
        if slots.null_count():
            known = slots.is_not_null()
            asked, keys, slots = asked.filter(known), keys.filter(known), slots.filter(known)
        # Keys are taken from the request: gathering texts from many frames is slow.
        found = pl.DataFrame([asked.alias(ASKED), keys.alias(KEY)])
        if rest := self._names[1:]:
            rows = self._log()[list(rest)][self._index.rows(slots)]
            found.hstack(rows.get_columns(), in_place=True)
        if self._times and (passed := found[UNTIL] < self._now_us).any():
            return found.filter(~passed.fill_null(False))
        return found

    def put(self, frame: pl.DataFrame) -> None:
        if not frame.height:
            return
        soon = frame.height >= SOON_ROWS
        if not soon:
            self._tidy()
        if UNTIL in frame.columns and not self._times:
            self._times = True
            self._frames, self._whole = [timed(each) for each in self._frames], None
        elif self._times and UNTIL not in frame.columns:
            frame = timed(frame)
        hashes, slots = self._looked_up(frame[KEY])
        self._append(compacted(frame[list(self._names)]), hashes, slots)
        if soon:
            self._tidy()

    def add(self, frame: pl.DataFrame) -> pl.Series:
        """Put the rows whose keys are not in the table; returns their numbers."""
        import polars as pl

        if self._times:
            return added_by_finding(self, frame)
        soon = frame.height >= SOON_ROWS
        if not soon:
            self._tidy()
        hashes, slots = self._looked_up(frame[KEY])
        new = slots.is_null()
        rows = pl.int_range(frame.height, dtype=pl.UInt32, eager=True).filter(new)
        fresh, hashes, slots = frame.filter(new), hashes.filter(new), slots.filter(new)
        first = fresh[KEY].is_first_distinct()
        if not first.all():
            rows, fresh = rows.filter(first), fresh.filter(first)
            hashes, slots = hashes.filter(first), slots.filter(first)
        if fresh.height:
            self._append(compacted(fresh[list(self._names)]), hashes, slots)
        if soon:
            self._tidy()
        return rows

    def remove(self, keys: pl.Series) -> None:
        if len(keys) < SOON_ROWS:
            self._tidy()
        _, slots = self._looked_up(keys.unique())
        self._drop(slots.drop_nulls(), remember=True)
        if len(keys) >= SOON_ROWS:
            self._tidy()

    def forget(self, now_us: int) -> None:
        """Drop expired rows."""
        self._now_us = max(self._now_us, now_us)
        if self._is_due(self._now_us):
            self._sweep()
            self._tidy()

    def owed(self, now_us: int) -> int:
        """Return how many rows the next calls work on: deferred work, and a sweep if one is due."""
        sweeps = self._is_due(now_us) or self._is_wasteful or self._index.lacks_room(SOON_ROWS)
        return (self._index.live if sweeps else 0) + sum(f.height for f in self._to_join)

    @property
    def rows(self) -> int:
        """Number of keys; some of them may have expired."""
        return self._index.live

    @property
    def bytes(self) -> int:
        """Memory that the table takes, in bytes."""
        return sum(int(frame.estimated_size()) for frame in self._frames) + self._index.bytes

    @property
    def size(self) -> Size:
        return Size(self.rows, self.bytes)

    def misses(self, keys: pl.Series) -> pl.Series:
        """Return a mask of the keys that the table has no row of, not even an expired one."""
        return self._looked_up(keys)[1].is_null()

    def live(self) -> tuple[pl.DataFrame, pl.Series]:
        """Return the log, and the log numbers of the rows of all keys, oldest first."""
        return self._log(), self._index.rows(self._index.occupied()).sort()

    def adopt(self, frozen: FrozenTable) -> None:
        """Start with a frozen log of these columns; its frames are not copied."""
        names = {KEY, *self._columns}
        if any(set(frame.columns) - {UNTIL} != names for frame in frozen.frames):
            raise ValueError(f"wanted the columns {sorted(names)}, got others")
        self._times = any(UNTIL in frame.columns for frame in frozen.frames)
        order = list(self._names)
        self._frames = [
            frame if frame.columns == order else frame[order] for frame in frozen.frames
        ]
        self._height = sum(frame.height for frame in self._frames)
        self._removed, self._now_us = list(frozen.removed), frozen.now_us
        if self._frames:
            log = frozen.last_rows()
            self._index.insert(hashes_of(log[KEY]), log[ROW].cast(int))

    def freeze(self) -> FrozenTable:
        frames, removed = tuple(self._frames), tuple(self._removed)
        return FrozenTable(frames, removed, self._now_us, self._group)

    @property
    def _names(self) -> tuple[str, ...]:
        """Columns of the log."""
        return (KEY, *self._columns, UNTIL) if self._times else (KEY, *self._columns)

    def _nothing(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(schema={ASKED: pl.UInt32(), KEY: pl.String(), **self._columns})

    def _looked_up(self, keys: pl.Series) -> tuple[pl.Series, pl.Series]:
        """Return the hashes and slots of these keys; cached, as keys that were found are mostly put
        next.
        """
        if self._last is not None and self._last[0].equals(keys):
            return self._last[1:]
        hashes = hashes_of(keys)
        slots = self._index.find(hashes, lambda asked, rows: self._are_of(_of(keys, asked), rows))
        self._last = keys, hashes, slots
        return hashes, slots

    def _are_of(self, keys: pl.Series, rows: pl.Series) -> pl.Series:
        """Return a mask of the keys that equal those of these rows; nearly all do."""
        if len(keys) < SOON_ROWS or len(self._frames) == 1:
            return keys == self._log()[KEY][rows]
        # One frame at a time: gathering rows from many frames as one is ten times as slow.
        start = 0
        for frame in self._frames:
            end = start + frame.height
            here = rows.is_between(start, end, closed="left")
            if (
                here.any()
                and not (keys.filter(here) == frame[KEY][rows.filter(here) - start]).all()
            ):
                return keys == self._log()[KEY][rows]
            start = end
        return here | True

    def _log(self) -> pl.DataFrame:
        """Return all frames as one, without copying them."""
        if self._whole is None:
            self._whole = reduce(lambda log, frame: log.vstack(frame), self._frames)
        return self._whole

    def _append(self, frame: pl.DataFrame, hashes: pl.Series, slots: pl.Series) -> None:
        import polars as pl

        end = self._height + frame.height
        rows = pl.int_range(self._height, end, dtype=pl.Int32, eager=True)
        if not (missing := slots.null_count()):
            self._index.replace(slots, rows)
        elif missing == len(slots):
            self._index.insert(hashes, rows)
            self._last = None
        else:
            new = slots.is_null()
            self._index.replace(slots.filter(~new), rows.filter(~new))
            self._index.insert(hashes.filter(new), rows.filter(new))
            self._last = None
        self._height = end
        self._frames.append(frame)
        joins = self._to_join
        if sum(each.height for each in joins) < SOON_ROWS:
            self._join(joins)
        self._whole = None

    @property
    def _to_join(self) -> list[pl.DataFrame]:
        """Last frames of the log, if those before the last one are not much longer than it."""
        rows = start = 0
        for start, frame in enumerate(reversed(self._frames)):
            if start and frame.height > FEWER * rows:
                break
            rows += frame.height
        else:
            start = len(self._frames)
        return self._frames[-start:] if start > 1 else []

    def _join(self, frames: list[pl.DataFrame]) -> None:
        if frames:
            whole = reduce(lambda log, frame: log.vstack(frame), frames).rechunk()
            self._frames[-len(frames) :] = [whole]
            self._whole = None

    def _is_due(self, now_us: int) -> bool:
        """Whether enough rows have expired by then for a sweep."""
        if not self._frames or not self._times:
            return False
        more = self._index.live > 2 * self._swept_rows + LEAST_GARBAGE
        return more or (self._sweep_us is not None and now_us > self._sweep_us)

    @property
    def _is_wasteful(self) -> bool:
        """Whether there is more garbage than live rows."""
        return self._height > 2 * self._index.live + LEAST_GARBAGE

    def _drop(self, slots: pl.Series, *, remember: bool) -> None:
        if not len(slots):
            return
        if remember:
            self._removed.append(self._index.rows(slots))
        self._index.remove(slots)
        self._last = None

    def _sweep(self) -> None:
        """Drop expired rows, and compute when the next sweep is due."""
        slots = self._index.occupied()
        until = self._log()[UNTIL][self._index.rows(slots)]
        passed = (until < self._now_us).fill_null(False)
        if self.swept is not None:
            self.swept.append(self._log()[KEY][self._index.rows(slots.filter(passed))])
        # Frozen tables apply EXPIRY themselves, so these rows need no removal record.
        self._drop(slots.filter(passed), remember=False)
        self._swept_rows = self._index.live
        half = until.filter(~passed).median()
        self._sweep_us = None if half is None else int(half)  # type: ignore[arg-type]

    def _tidy(self) -> None:
        """Do deferred work; compact the log if it has too much garbage."""
        self._join(self._to_join)
        if self._index.lacks_room(SOON_ROWS):
            self._index.make_room(SOON_ROWS)
            self._last = None
        if not self._is_wasteful:
            return
        if self._index.live:
            self._frames = [compacted(self._log()[self._index.renumbered()])]
        else:
            self._frames, self._index, self._sweep_us = [], Index(), None
        self._height, self._whole = self._index.live, None
        self._removed = []
        self._last = None


def added_by_finding(table: Table, frame: pl.DataFrame) -> pl.Series:
    """Implement `add` for any table by `find` and `put`."""
    import polars as pl

    heads = frame.with_row_index(ROW).unique(KEY, keep="first", maintain_order=True)
    found = table.find(heads[KEY])[ASKED]
    at = pl.int_range(heads.height, dtype=pl.UInt32, eager=True)
    new = heads.filter(~at.is_in(found.implode()))
    if new.height:
        table.put(new.drop(ROW))
    return new[ROW]


def _of(keys: pl.Series, numbers: pl.Series) -> pl.Series:
    """Return the keys of these ascending numbers; often all of them."""
    return keys if len(numbers) == len(keys) else keys[numbers]
