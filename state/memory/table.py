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

from headrace.core.api.state import EXPIRY, KEY, KEY_INDEX, NO_CLOCK_US
from headrace.core.api.state_sizes import StateSize
from headrace.core.types.frames import copy_compact, filter_rows, rechunk
from headrace.core.types.key_groups import hash_keys
from headrace.state.memory.hash_table import HashTable
from headrace.state.memory.row_filters import add_expiry_column
from headrace.state.memory.table_log import LOG_ROW, FrozenTable

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.api.state import KeyedTable

MIN_GARBAGE = 4096
FRAME_RATIO = 4
"""A frame of the log is merged with the one before it if that is at most this many times as long.
"""

MAX_SLICES = 4
"""The most rows with lists that are read one by one."""

DEFER_BELOW_ROWS = 2000
"""To put or remove fewer rows leaves work that takes long to the next call."""


class MemoryKeyedTable:
    """Live table. `group`: the columns that give a row's key group, if KEY does not."""

    def __init__(
        self, columns: Mapping[str, pl.DataType], group: tuple[str, ...] | None = None
    ) -> None:
        self._columns = dict(columns)
        self._group = group
        self._index = HashTable()
        self._frames: list[pl.DataFrame] = []
        self._height = 0
        self._log_cache: pl.DataFrame | None = None
        self._removed_rows: list[pl.Series] = []
        self._now_us = NO_CLOCK_US
        self._has_expiry = False
        """Whether any row ever had EXPIRY."""
        self._sweep_us: int | None = None
        self._swept_rows = 0
        self._last_lookup: tuple[pl.Series, pl.Series, pl.Series] | None = None
        self.swept_keys: list[pl.Series] | None = None
        """If a list: keys of the rows that a sweep dropped are appended."""

    def find(self, keys: pl.Series) -> pl.DataFrame:
        """Return the rows of those keys, in the order of the keys."""
        import polars as pl

        if not self._height:
            return self._build_empty()
        _, slots = self._look_up(keys)
        key_numbers = pl.int_range(len(keys), dtype=pl.UInt32, eager=True)
        if slots.null_count():
            known = slots.is_not_null()
            key_numbers, keys, slots = (
                key_numbers.filter(known),
                keys.filter(known),
                slots.filter(known),
            )
        # Keys are taken from the request: gathering texts from many frames is slow.
        found = pl.DataFrame([key_numbers.alias(KEY_INDEX), keys.alias(KEY)])
        if rest := self._column_names[1:]:
            rows = self._read_rows(list(rest), self._index.get_rows(slots))
            found.hstack(rows.get_columns(), in_place=True)
        if self._has_expiry and (passed := found[EXPIRY] < self._now_us).any():
            return found.filter(~passed.fill_null(False))
        return found

    def put(self, frame: pl.DataFrame) -> None:
        if not frame.height:
            return
        soon = frame.height >= DEFER_BELOW_ROWS
        if not soon:
            self._do_deferred_work()
        if EXPIRY in frame.columns and not self._has_expiry:
            self._has_expiry = True
            self._frames, self._log_cache = [add_expiry_column(each) for each in self._frames], None
        elif self._has_expiry and EXPIRY not in frame.columns:
            frame = add_expiry_column(frame)
        hashes, slots = self._look_up(frame[KEY])
        self._append(copy_compact(frame[list(self._column_names)]), hashes, slots)
        if soon:
            self._do_deferred_work()

    def add(self, frame: pl.DataFrame) -> pl.Series:
        """Put the rows whose keys are not in the table; returns their numbers."""
        import polars as pl

        if self._has_expiry:
            return add_by_lookup(self, frame)
        soon = frame.height >= DEFER_BELOW_ROWS
        if not soon:
            self._do_deferred_work()
        hashes, slots = self._look_up(frame[KEY])
        rows = pl.int_range(frame.height, dtype=pl.UInt32, eager=True)
        if slots.null_count() < len(slots):
            new = slots.is_null()
            rows, frame = rows.filter(new), filter_rows(frame, new)
            hashes, slots = hashes.filter(new), slots.filter(new)
        if frame.height > 1 and not (first := frame[KEY].is_first_distinct()).all():
            rows, frame = rows.filter(first), filter_rows(frame, first)
            hashes, slots = hashes.filter(first), slots.filter(first)
        if frame.height:
            self._append(copy_compact(frame[list(self._column_names)]), hashes, slots)
        if soon:
            self._do_deferred_work()
        return rows

    def remove(self, keys: pl.Series) -> None:
        if len(keys) < DEFER_BELOW_ROWS:
            self._do_deferred_work()
        _, slots = self._look_up(keys.unique())
        self._remove_slots(slots.drop_nulls(), remember=True)
        if len(keys) >= DEFER_BELOW_ROWS:
            self._do_deferred_work()

    def expire(self, now_us: int) -> None:
        """Drop expired rows."""
        self._now_us = max(self._now_us, now_us)
        if self._is_sweep_due(self._now_us):
            self._sweep()
            self._do_deferred_work()

    def estimate_deferred_rows(self, now_us: int) -> int:
        """Return how many rows the next calls work on: deferred work, and a sweep if one is due."""
        sweeps = (
            self._is_sweep_due(now_us)
            or self._has_excess_garbage
            or self._index.needs_growth(DEFER_BELOW_ROWS)
        )
        return (self._index.key_count if sweeps else 0) + sum(
            f.height for f in self._mergeable_frames
        )

    @property
    def rows(self) -> int:
        """Number of keys; some of them may have expired."""
        return self._index.key_count

    @property
    def bytes(self) -> int:
        """Memory that the table takes, in bytes."""
        return sum(int(frame.estimated_size()) for frame in self._frames) + self._index.bytes

    @property
    def size(self) -> StateSize:
        return StateSize(self.rows, self.bytes)

    def mask_missing(self, keys: pl.Series) -> pl.Series:
        """Return a mask of the keys that the table has no row of, not even an expired one."""
        return self._look_up(keys)[1].is_null()

    def read_live(self) -> tuple[pl.DataFrame, pl.Series]:
        """Return the log, and the log numbers of the rows of all keys, oldest first."""
        return self._get_log(), self._index.get_rows(self._index.list_occupied()).sort()

    def adopt(self, frozen: FrozenTable) -> None:
        """Start with a frozen log of these columns; its frames are not copied."""
        names = {KEY, *self._columns}
        if any(set(frame.columns) - {EXPIRY} != names for frame in frozen.frames):
            raise ValueError(f"wanted the columns {sorted(names)}, got others")
        self._has_expiry = any(EXPIRY in frame.columns for frame in frozen.frames)
        order = list(self._column_names)
        self._frames = [
            frame if frame.columns == order else frame[order] for frame in frozen.frames
        ]
        self._height = sum(frame.height for frame in self._frames)
        self._removed_rows, self._now_us = list(frozen.removed_rows), frozen.now_us
        if self._frames:
            log = frozen.find_latest_rows()
            self._index.insert(hash_keys(log[KEY]), log[LOG_ROW].cast(int))

    def freeze(self) -> FrozenTable:
        frames, removed = tuple(self._frames), tuple(self._removed_rows)
        return FrozenTable(frames, removed, self._now_us, self._group)

    @property
    def _column_names(self) -> tuple[str, ...]:
        """Columns of the log."""
        return (KEY, *self._columns, EXPIRY) if self._has_expiry else (KEY, *self._columns)

    def _build_empty(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(schema={KEY_INDEX: pl.UInt32(), KEY: pl.String(), **self._columns})

    def _look_up(self, keys: pl.Series) -> tuple[pl.Series, pl.Series]:
        """Return the hashes and slots of these keys; cached, as keys that were found are mostly put
        next.
        """
        if self._last_lookup is not None and self._last_lookup[0].equals(keys):
            return self._last_lookup[1:]
        hashes = hash_keys(keys)
        slots = self._index.find(
            hashes,
            lambda key_numbers, rows: self._mask_equal_keys(_select_keys(keys, key_numbers), rows),
        )
        self._last_lookup = keys, hashes, slots
        return hashes, slots

    def _mask_equal_keys(self, keys: pl.Series, rows: pl.Series) -> pl.Series:
        """Return a mask of the keys that equal those of these rows; nearly all do."""
        if len(keys) < DEFER_BELOW_ROWS or len(self._frames) == 1:
            return keys == self._get_log()[KEY][rows]
        # One frame at a time: gathering rows from many frames as one is ten times as slow.
        start = 0
        for frame in self._frames:
            end = start + frame.height
            here = rows.is_between(start, end, closed="left")
            if (
                here.any()
                and not (keys.filter(here) == frame[KEY][rows.filter(here) - start]).all()
            ):
                return keys == self._get_log()[KEY][rows]
            start = end
        return here | True

    def _read_rows(self, columns: list[str], rows: pl.Series) -> pl.DataFrame:
        """Return these columns of the rows at these log numbers."""
        import polars as pl

        log = self._get_log()[columns]
        if len(self._frames) == 1 or not any(type == pl.List for type in log.dtypes):
            return log[rows]
        # Polars copies all lists of several frames as one to gather a few, but not to slice them.
        if len(rows) <= MAX_SLICES:
            return pl.concat([log[row : row + 1] for row in rows.to_list()] or [log[:0]])
        at = pl.int_range(len(rows), dtype=pl.UInt32, eager=True)
        parts, numbers, start = [], [], 0
        for frame in self._frames:
            here = rows.is_between(start, start + frame.height - 1)
            if here.any():
                parts.append(frame[columns][rows.filter(here) - start])
                numbers.append(at.filter(here))
            start += frame.height
        found = pl.concat(parts)
        return found if len(parts) == 1 else found[pl.concat(numbers).arg_sort()]

    def _get_log(self) -> pl.DataFrame:
        """Return all frames as one, without copying them."""
        if self._log_cache is None:
            self._log_cache = reduce(lambda log, frame: log.vstack(frame), self._frames)
        return self._log_cache

    def _append(self, frame: pl.DataFrame, hashes: pl.Series, slots: pl.Series) -> None:
        import polars as pl

        end = self._height + frame.height
        rows = pl.int_range(self._height, end, dtype=pl.Int32, eager=True)
        if not (missing := slots.null_count()):
            self._index.replace(slots, rows)
        elif missing == len(slots):
            self._index.insert(hashes, rows)
            self._last_lookup = None
        else:
            new = slots.is_null()
            self._index.replace(slots.filter(~new), rows.filter(~new))
            self._index.insert(hashes.filter(new), rows.filter(new))
            self._last_lookup = None
        self._height = end
        self._frames.append(frame)
        joins = self._mergeable_frames
        if sum(each.height for each in joins) < DEFER_BELOW_ROWS:
            self._merge_frames(joins)
        self._log_cache = None

    @property
    def _mergeable_frames(self) -> list[pl.DataFrame]:
        """Last frames of the log, if those before the last one are not much longer than it."""
        rows = start = 0
        for start, frame in enumerate(reversed(self._frames)):
            if start and frame.height > FRAME_RATIO * rows:
                break
            rows += frame.height
        else:
            start = len(self._frames)
        return self._frames[-start:] if start > 1 else []

    def _merge_frames(self, frames: list[pl.DataFrame]) -> None:
        if frames:
            whole = rechunk(reduce(lambda log, frame: log.vstack(frame), frames))
            self._frames[-len(frames) :] = [whole]
            self._log_cache = None

    def _is_sweep_due(self, now_us: int) -> bool:
        """Whether enough rows have expired by then for a sweep."""
        if not self._frames or not self._has_expiry:
            return False
        more = self._index.key_count > 2 * self._swept_rows + MIN_GARBAGE
        return more or (self._sweep_us is not None and now_us > self._sweep_us)

    @property
    def _has_excess_garbage(self) -> bool:
        """Whether there is more garbage than live rows."""
        return self._height > 2 * self._index.key_count + MIN_GARBAGE

    def _remove_slots(self, slots: pl.Series, *, remember: bool) -> None:
        if not len(slots):
            return
        if remember:
            self._removed_rows.append(self._index.get_rows(slots))
        self._index.remove(slots)
        self._last_lookup = None

    def _sweep(self) -> None:
        """Drop expired rows, and compute when the next sweep is due."""
        slots = self._index.list_occupied()
        until = self._get_log()[EXPIRY][self._index.get_rows(slots)]
        passed = (until < self._now_us).fill_null(False)
        if self.swept_keys is not None:
            self.swept_keys.append(self._get_log()[KEY][self._index.get_rows(slots.filter(passed))])
        # Frozen tables apply EXPIRY themselves, so these rows need no removal record.
        self._remove_slots(slots.filter(passed), remember=False)
        self._swept_rows = self._index.key_count
        half = until.filter(~passed).median()
        self._sweep_us = None if half is None else int(half)  # type: ignore[arg-type]

    def _do_deferred_work(self) -> None:
        """Do deferred work; compact the log if it has too much garbage."""
        self._merge_frames(self._mergeable_frames)
        if self._index.needs_growth(DEFER_BELOW_ROWS):
            self._index.grow(DEFER_BELOW_ROWS)
            self._last_lookup = None
        if not self._has_excess_garbage:
            return
        if self._index.key_count:
            self._frames = [copy_compact(self._get_log()[self._index.renumber()])]
        else:
            self._frames, self._index, self._sweep_us = [], HashTable(), None
        self._height, self._log_cache = self._index.key_count, None
        self._removed_rows = []
        self._last_lookup = None


def add_by_lookup(table: KeyedTable, frame: pl.DataFrame) -> pl.Series:
    """Implement `add` for any table by `find` and `put`."""
    import polars as pl

    heads = frame.with_row_index(LOG_ROW).unique(KEY, keep="first", maintain_order=True)
    found = table.find(heads[KEY])[KEY_INDEX]
    at = pl.int_range(heads.height, dtype=pl.UInt32, eager=True)
    new = heads.filter(~at.is_in(found.implode()))
    if new.height:
        table.put(new.drop(LOG_ROW))
    return new[LOG_ROW]


def _select_keys(keys: pl.Series, numbers: pl.Series) -> pl.Series:
    """Return the keys of these ascending numbers; often all of them."""
    return keys if len(numbers) == len(keys) else keys[numbers]
