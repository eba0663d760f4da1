"""Rows that wait for the watermark to pass them, and come out in the order of all rows.

Those that came since the last watermark are at hand: most of them go out with the next one, and
need never be filed. What is left then is in the state.
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
    """The rows of one input. Frames have the columns of the layout."""

    def __init__(
        self, name: str, columns: Mapping[str, pl.DataType], key: tuple[str, ...], state: StepState
    ) -> None:
        self._columns = list(columns)
        self._runs: Runs = state.runs(name, RunsLayout(columns, key, _as_they_are))
        self._fresh: list[Waiting] = []

    def __len__(self) -> int:
        return self._runs.rows + sum(each.frame.height for each in self._fresh)

    def hold(self, frame: pl.DataFrame) -> None:
        """Rows have come; none of them is late."""
        self._fresh.append(Waiting.of(of_columns(frame, self._columns)))

    def released(self, before_us: int) -> pl.DataFrame | None:
        """The rows before that time, in their order, which are held no longer."""
        early, self._fresh = _parted(self._fresh, before_us)
        found = self._of_runs(before_us) + early
        return in_order(joined(found)) if found else None

    def file(self) -> None:
        """Have all rows in the state."""
        if self._fresh:
            whole = joined([each.frame for each in self._fresh])
            self._runs.add(whole.hstack([microseconds(whole[EVENT_TIME]).alias(SLOT)]))
            self._fresh = []

    def _of_runs(self, before_us: int) -> list[pl.DataFrame]:
        first = self._runs.first()
        if first is None or first >= before_us:
            return []
        taken = self._runs.take(before_us - 1)
        return [] if taken is None else [taken.select(self._columns)]


class HeldByAll:
    """The rows of an input that every subtask has whole."""

    def __init__(self, name: str, columns: Iterable[str], state: StepState) -> None:
        self._columns = list(columns)
        self._kept = state.entries(name, Spread.GROUPS)
        kept = self._kept.rows
        self._frames = [Waiting.of(kept)] if kept is not None and kept.height else []

    def __len__(self) -> int:
        return sum(each.frame.height for each in self._frames)

    def hold(self, frame: pl.DataFrame) -> None:
        """Rows have come, late ones among them: they are released with the next."""
        self._frames.append(Waiting.of(of_columns(frame, self._columns)))

    def released(self, before_us: int) -> pl.DataFrame | None:
        """The rows before that time, in their order, which are held no longer."""
        early, self._frames = _parted(self._frames, before_us)
        return in_order(joined(early)) if early else None

    def file(self) -> None:
        """Have all rows in the state."""
        frames = [each.frame for each in self._frames]
        self._kept.rows = joined(frames) if frames else None


class Waiting(NamedTuple):
    """Rows, of which there is one at least, and the first and the last of their times.

    Many watermarks come and pass none of them; to look at all rows each time would take long.
    """

    frame: pl.DataFrame
    first_us: int
    last_us: int

    @classmethod
    def of(cls, frame: pl.DataFrame) -> Waiting:
        """These rows."""
        times = microseconds(frame[EVENT_TIME])
        return cls(frame, int(times.min()), int(times.max()))  # type: ignore[arg-type]

    def parted(self, before_us: int) -> tuple[pl.DataFrame, Waiting]:
        """The rows before a time, and the others; there are some of both."""
        times = microseconds(self.frame[EVENT_TIME])
        if times.is_sorted():
            at = up_to(times, before_us - 1)
            return self.frame.head(at), Waiting.of(self.frame.slice(at))
        is_early = times < before_us
        return filtered(self.frame, is_early), Waiting.of(filtered(self.frame, ~is_early))


def _parted(waiting: Iterable[Waiting], before_us: int) -> tuple[list[pl.DataFrame], list[Waiting]]:
    """The rows before a time, and the others."""
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
    """Rows in the order of their time, and of their places among all, if they have one."""
    import polars as pl

    times = frame[EVENT_TIME]
    if ORDER not in frame.columns:
        return frame if times.is_sorted() else frame.sort(EVENT_TIME, maintain_order=True)
    if times.is_sorted() and _stand_in_order(frame[ORDER]):
        return frame
    place = pl.col(ORDER).struct
    return frame.sort(EVENT_TIME, place.field("at"), place.field("part"), maintain_order=True)


def _stand_in_order(places: pl.Series) -> bool:
    """Whether places stand in order whatever their times are, as those of one split do."""
    fields = places.struct.unnest()
    at, part = fields["at"], fields["part"]
    return at.is_sorted() and part.min() == part.max()


def _as_they_are(frame: pl.DataFrame) -> pl.DataFrame:
    return frame
