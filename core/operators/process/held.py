"""Rows that wait for the watermark to pass them, and come out in the order of all rows.

Those that came since the last watermark are at hand: most of them go out with the next one, and
need never be filed. What is left then is in the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.frames import joined
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
        self._fresh: list[pl.DataFrame] = []

    def __len__(self) -> int:
        return self._runs.rows + sum(frame.height for frame in self._fresh)

    def hold(self, frame: pl.DataFrame) -> None:
        """Rows have come; none of them is late."""
        self._fresh.append(frame.select(self._columns))

    def released(self, before_us: int) -> pl.DataFrame | None:
        """The rows before that time, in their order, which are held no longer."""
        early, self._fresh = _parted(self._fresh, before_us)
        found = self._of_runs(before_us) + early
        return in_order(joined(found)) if found else None

    def file(self) -> None:
        """Have all rows in the state."""
        import polars as pl

        if self._fresh:
            whole = joined(self._fresh)
            slot = whole[EVENT_TIME].to_physical().cast(pl.Int64).alias(SLOT)
            self._runs.add(whole.with_columns(slot))
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
        self._frames = [] if self._kept.rows is None else [self._kept.rows]

    def __len__(self) -> int:
        return sum(frame.height for frame in self._frames)

    def hold(self, frame: pl.DataFrame) -> None:
        """Rows have come, late ones among them: they are released with the next."""
        self._frames.append(frame.select(self._columns))

    def released(self, before_us: int) -> pl.DataFrame | None:
        """The rows before that time, in their order, which are held no longer."""
        early, self._frames = _parted(self._frames, before_us)
        return in_order(joined(early)) if early else None

    def file(self) -> None:
        """Have all rows in the state."""
        self._kept.rows = joined(self._frames) if self._frames else None


def _parted(
    frames: Iterable[pl.DataFrame], before_us: int
) -> tuple[list[pl.DataFrame], list[pl.DataFrame]]:
    """The rows before a time, and the others."""
    early: list[pl.DataFrame] = []
    left: list[pl.DataFrame] = []
    for frame in frames:
        is_early = frame[EVENT_TIME].to_physical() < before_us
        if is_early.all():
            early.append(frame)
        elif is_early.any():
            early.append(frame.filter(is_early))
            left.append(frame.filter(~is_early))
        else:
            left.append(frame)
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
    at, part = places.struct.field("at"), places.struct.field("part")
    return at.is_sorted() and part.min() == part.max()


def _as_they_are(frame: pl.DataFrame) -> pl.DataFrame:
    return frame
