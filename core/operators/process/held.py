"""Rows buffered until the watermark passes them, released in row order.

Rows that arrived since the last watermark stay in memory: most of them are released with the next
one, and need not be written to the state. The rows left after that are in the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.frames import filtered, joined, microseconds, of_columns, up_to
from headrace.core.state import SLOT, Runs, RunsLayout, Spread, StepState

if TYPE_CHECKING:
    import polars as pl


class Held:
    """The buffered rows of one input. Frames have the columns of the layout."""

    def __init__(
        self, name: str, columns: Mapping[str, pl.DataType], key: tuple[str, ...], state: StepState
    ) -> None:
        self._columns = list(columns)
        self._runs: Runs = state.runs(name, RunsLayout(columns, key, _as_they_are))
        self._new_frames: list[Waiting] = []

    def __len__(self) -> int:
        return self._runs.rows + sum(each.frame.height for each in self._new_frames)

    def hold(self, frame: pl.DataFrame) -> None:
        """Buffer rows that are not late."""
        self._new_frames.append(Waiting.of(of_columns(frame, self._columns)))

    def released(self, before_us: int) -> pl.DataFrame | None:
        """Remove and return the rows before that time, in row order."""
        early, self._new_frames = _parted(self._new_frames, before_us)
        found = self._of_runs(before_us) + early
        return in_order(joined(found)) if found else None

    def file(self) -> None:
        """Write all rows to the state."""
        if self._new_frames:
            whole = joined([each.frame for each in self._new_frames])
            self._runs.add(whole.hstack([microseconds(whole[EVENT_TIME]).alias(SLOT)]))
            self._new_frames = []

    def _of_runs(self, before_us: int) -> list[pl.DataFrame]:
        first = self._runs.first()
        if first is None or first >= before_us:
            return []
        taken = self._runs.take(before_us - 1)
        return [] if taken is None else [taken.select(self._columns)]


class HeldByAll:
    """The buffered rows of a broadcast input, complete in every subtask."""

    def __init__(self, name: str, columns: Iterable[str], state: StepState) -> None:
        self._columns = list(columns)
        self._entries = state.entries(name, Spread.GROUPS)
        kept = self._entries.rows
        self._frames = [Waiting.of(kept)] if kept is not None and kept.height else []

    def __len__(self) -> int:
        return sum(each.frame.height for each in self._frames)

    def hold(self, frame: pl.DataFrame) -> None:
        """Buffer rows; late ones are released with the next rows."""
        self._frames.append(Waiting.of(of_columns(frame, self._columns)))

    def released(self, before_us: int) -> pl.DataFrame | None:
        """Remove and return the rows before that time, in row order."""
        early, self._frames = _parted(self._frames, before_us)
        return in_order(joined(early)) if early else None

    def file(self) -> None:
        """Write all rows to the state."""
        frames = [each.frame for each in self._frames]
        self._entries.rows = joined(frames) if frames else None


class Waiting(NamedTuple):
    """At least one buffered row, and the first and the last of the rows' times.

    Most watermarks pass none of the rows; comparing all rows each time would be slow.
    """

    frame: pl.DataFrame
    first_us: int
    last_us: int

    @classmethod
    def of(cls, frame: pl.DataFrame) -> Waiting:
        """Wrap these rows."""
        times = microseconds(frame[EVENT_TIME])
        return cls(frame, int(times.min()), int(times.max()))  # type: ignore[arg-type]

    def parted(self, before_us: int) -> tuple[pl.DataFrame, Waiting]:
        """Split into the rows before a time and the others; neither part is empty."""
        times = microseconds(self.frame[EVENT_TIME])
        if times.is_sorted():
            at = up_to(times, before_us - 1)
            return self.frame.head(at), Waiting.of(self.frame.slice(at))
        is_early = times < before_us
        return filtered(self.frame, is_early), Waiting.of(filtered(self.frame, ~is_early))


def _parted(waiting: Iterable[Waiting], before_us: int) -> tuple[list[pl.DataFrame], list[Waiting]]:
    """Split buffered frames into the rows before a time and the others."""
    early: list[pl.DataFrame] = []
    left: list[Waiting] = []
    for each in waiting:
        if each.last_us < before_us:
            early.append(each.frame)
        elif each.first_us >= before_us:
            left.append(each)
        else:
            frame, rest = each.parted(before_us)
            early.append(frame)
            left.append(rest)
    return early, left


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort rows by their time, and by their position in the row order, if they have one."""
    import polars as pl

    times = frame[EVENT_TIME]
    if ORDER not in frame.columns:
        return frame if times.is_sorted() else frame.sort(EVENT_TIME, maintain_order=True)
    if times.is_sorted() and _stand_in_order(frame[ORDER]):
        return frame
    place = pl.col(ORDER).struct
    return frame.sort(EVENT_TIME, place.field("at"), place.field("part"), maintain_order=True)


def _stand_in_order(places: pl.Series) -> bool:
    """Whether positions are in order regardless of time, as within one split."""
    fields = places.struct.unnest()
    at, part = fields["at"], fields["part"]
    return at.is_sorted() and part.min() == part.max()


def _as_they_are(frame: pl.DataFrame) -> pl.DataFrame:
    return frame
