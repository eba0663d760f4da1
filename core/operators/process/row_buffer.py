"""Rows buffered until the watermark passes them, released in row order.

Rows that arrived since the last watermark stay in memory: most of them are released with the next
one, and need not be written to the state. The rows left after that are in the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from headrace.core.api.state import SLOT, Redistribution, RunsLayout, SortedRuns, StepState
from headrace.core.types.elements import EVENT_TIME, ORDER
from headrace.core.types.frames import (
    concat_contiguous,
    count_up_to,
    filter_rows,
    pick_columns,
    to_integers,
)

if TYPE_CHECKING:
    import polars as pl


class RowBuffer:
    """The buffered rows of one input. Frames have the columns of the layout."""

    def __init__(
        self, name: str, columns: Mapping[str, pl.DataType], key: tuple[str, ...], state: StepState
    ) -> None:
        self._columns = list(columns)
        self._runs: SortedRuns = state.open_runs(name, RunsLayout(columns, key, _skip_merge))
        self._new_frames: list[BufferedFrame] = []

    def __len__(self) -> int:
        return self._runs.rows + sum(each.frame.height for each in self._new_frames)

    def add(self, frame: pl.DataFrame) -> None:
        """Buffer rows that are not late."""
        self._new_frames.append(BufferedFrame.from_frame(pick_columns(frame, self._columns)))

    def release(self, before_us: int) -> pl.DataFrame | None:
        """Remove and return the rows before that time, in row order."""
        found = self.release_frames(before_us)
        return sort_rows(concat_contiguous(found)) if found else None

    def release_frames(self, before_us: int) -> list[pl.DataFrame]:
        """Remove and return the rows before that time, in the order in which they came."""
        early, self._new_frames = _split_frames(self._new_frames, before_us)
        return self._take_stored(before_us) + early

    def flush_to_state(self) -> None:
        """Write all rows to the state."""
        if self._new_frames:
            whole = concat_contiguous([each.frame for each in self._new_frames])
            self._runs.add(whole.hstack([to_integers(whole[EVENT_TIME]).alias(SLOT)]))
            self._new_frames = []

    def _take_stored(self, before_us: int) -> list[pl.DataFrame]:
        first = self._runs.get_first_slot()
        if first is None or first >= before_us:
            return []
        rows = self._runs.take(before_us - 1)
        return [] if rows is None else [rows.select(self._columns)]


class BroadcastRowBuffer:
    """The buffered rows of a broadcast input, complete in every subtask."""

    def __init__(self, name: str, columns: Iterable[str], state: StepState) -> None:
        self._columns = list(columns)
        self._entries = state.open_entries(name, Redistribution.GROUPS)
        restored_rows = self._entries.rows
        self._frames = (
            [BufferedFrame.from_frame(restored_rows)]
            if restored_rows is not None and restored_rows.height
            else []
        )

    def __len__(self) -> int:
        return sum(each.frame.height for each in self._frames)

    def add(self, frame: pl.DataFrame) -> None:
        """Buffer rows; late ones are released with the next rows."""
        self._frames.append(BufferedFrame.from_frame(pick_columns(frame, self._columns)))

    def release(self, before_us: int) -> pl.DataFrame | None:
        """Remove and return the rows before that time, in row order."""
        early, self._frames = _split_frames(self._frames, before_us)
        return sort_rows(concat_contiguous(early)) if early else None

    def flush_to_state(self) -> None:
        """Write all rows to the state."""
        frames = [each.frame for each in self._frames]
        self._entries.rows = concat_contiguous(frames) if frames else None


class BufferedFrame(NamedTuple):
    """At least one buffered row, and the first and the last of the rows' times.

    Most watermarks pass none of the rows; comparing all rows each time would be slow.
    """

    frame: pl.DataFrame
    first_us: int
    last_us: int

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> BufferedFrame:
        """Wrap these rows."""
        times = to_integers(frame[EVENT_TIME])
        return cls(frame, int(times.min()), int(times.max()))  # type: ignore[arg-type]

    def split(self, before_us: int) -> tuple[pl.DataFrame, BufferedFrame]:
        """Split into the rows before a time and the others; neither part is empty."""
        times = to_integers(self.frame[EVENT_TIME])
        if times.is_sorted():
            at = count_up_to(times, before_us - 1)
            return self.frame.head(at), BufferedFrame.from_frame(self.frame.slice(at))
        is_early = times < before_us
        return filter_rows(self.frame, is_early), BufferedFrame.from_frame(
            filter_rows(self.frame, ~is_early)
        )


def _split_frames(
    waiting: Iterable[BufferedFrame], before_us: int
) -> tuple[list[pl.DataFrame], list[BufferedFrame]]:
    """Split buffered frames into the rows before a time and the others."""
    early: list[pl.DataFrame] = []
    later: list[BufferedFrame] = []
    for each in waiting:
        if each.last_us < before_us:
            early.append(each.frame)
        elif each.first_us >= before_us:
            later.append(each)
        else:
            frame, rest = each.split(before_us)
            early.append(frame)
            later.append(rest)
    return early, later


def sort_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort rows by their time, and by their position in the row order, if they have one."""
    import polars as pl

    times = frame[EVENT_TIME]
    if ORDER not in frame.columns:
        return frame if times.is_sorted() else frame.sort(EVENT_TIME, maintain_order=True)
    if times.is_sorted() and _is_position_sorted(frame[ORDER]):
        return frame
    place = pl.col(ORDER).struct
    return frame.sort(EVENT_TIME, place.field("at"), place.field("part"), maintain_order=True)


def _is_position_sorted(places: pl.Series) -> bool:
    """Whether positions are in order regardless of time, as within one split."""
    fields = places.struct.unnest()
    at, part = fields["at"], fields["part"]
    return at.is_sorted() and part.min() == part.max()


def _skip_merge(frame: pl.DataFrame) -> pl.DataFrame:
    return frame
