"""State in memory: the model that other backends are held to, and `state: {backend: memory}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from headrace.core.state import (
    ASKED,
    KEY,
    NO_CLOCK_US,
    SLOT,
    UNTIL,
    Counts,
    Frozen,
    Owner,
    RunsLayout,
)

if TYPE_CHECKING:
    import polars as pl


class MemoryBackend:
    """Opens states in this process's memory."""

    def open(self, owner: Owner) -> MemoryState:
        """The state of a subtask of a step."""
        return MemoryState(owner)


@dataclass(slots=True)
class MemoryState:
    """The state of one subtask of one step."""

    owner: Owner
    clock_us: int = NO_CLOCK_US
    counts: Counts = field(default_factory=Counts)
    _runs: dict[str, MemoryRuns] = field(default_factory=dict)
    _tables: dict[str, MemoryTable] = field(default_factory=dict)

    def runs(self, name: str, layout: RunsLayout) -> MemoryRuns:
        """Open a state of runs."""
        return self._runs.setdefault(name, MemoryRuns(layout))

    def table(self, name: str, columns: Mapping[str, pl.DataType]) -> MemoryTable:
        """Open a table."""
        return self._tables.setdefault(name, MemoryTable(dict(columns)))

    def freeze(self) -> Frozen:
        """What is kept now."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of everything."""
        self._runs.clear()
        self._tables.clear()


@dataclass(slots=True)
class MemoryRuns:
    """Frames in a list, sorted by slot, merged by doubling."""

    layout: RunsLayout
    _frames: list[pl.DataFrame] = field(default_factory=list)

    def add(self, frame: pl.DataFrame) -> None:
        """File these rows."""
        if not frame.height:
            return
        self._frames.append(frame.sort(SLOT))
        while len(self._frames) > 1 and self._frames[-2].height <= 2 * self._frames[-1].height:
            last = [self._frames.pop(), self._frames.pop()]
            self._frames.append(self._merged(last))

    def first(self) -> int | None:
        """The least slot."""
        return min((int(frame[SLOT][0]) for frame in self._frames), default=None)

    def take(self, until: int) -> pl.DataFrame | None:
        """Everything up to a slot, out of the state."""
        found = self._between(None, until)
        self.drop(until)
        return found

    def read(self, after: int, until: int) -> pl.DataFrame | None:
        """Everything between two slots."""
        return self._between(after, until)

    def drop(self, until: int) -> None:
        """Forget everything up to a slot."""
        kept = (frame.slice(_end(frame, until)) for frame in self._frames)
        self._frames = [frame for frame in kept if frame.height]

    def of_keys(self, keys: pl.DataFrame, after: int) -> pl.DataFrame | None:
        """What is filed of those keys behind a slot."""
        return self._joined(
            [self._of(keys, frame.slice(_end(frame, after))) for frame in self._frames]
        )

    def take_keys(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Everything of those keys, out of the state."""
        found = [self._of(keys, frame) for frame in self._frames]
        kept = [self._of(keys, frame, "anti") for frame in self._frames]
        self._frames = [frame for frame in kept if frame.height]
        together = self._joined(found)
        return None if together is None else self._merged([together])

    def _of(
        self, keys: pl.DataFrame, frame: pl.DataFrame, how: Literal["semi", "anti"] = "semi"
    ) -> pl.DataFrame:
        """The rows of a frame whose key is among these, or is not; they stay sorted."""
        key = list(self.layout.key)
        if not key:
            return frame if how == "semi" else frame.clear()
        return frame.join(keys, on=key, how=how, nulls_equal=True, maintain_order="left")

    def _joined(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
        import polars as pl

        full = [frame for frame in frames if frame.height]
        return pl.concat(full) if full else None

    @property
    def rows(self) -> int:
        """How many rows are kept."""
        return sum(frame.height for frame in self._frames)

    def _between(self, after: int | None, until: int) -> pl.DataFrame | None:
        parts = []
        for frame in self._frames:
            start = 0 if after is None else _end(frame, after)
            part = frame.slice(start, max(_end(frame, until) - start, 0))
            if part.height:
                parts.append(part)
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else self._merged(parts)

    def _merged(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        import polars as pl

        return self.layout.merge(pl.concat(frames)).sort(SLOT)


def _end(frame: pl.DataFrame, until: int) -> int:
    return int(frame[SLOT].search_sorted(until, side="right"))


@dataclass(slots=True)
class MemoryTable:
    """A frame, and filters."""

    columns: dict[str, pl.DataType]
    _frame: pl.DataFrame | None = None

    def find(self, keys: pl.Series) -> pl.DataFrame:
        """The rows of those keys."""
        import polars as pl

        asked = keys.alias(KEY).to_frame().with_row_index(ASKED)
        if self._frame is None:
            types = {KEY: pl.String(), **self.columns, UNTIL: pl.Int64()}
            return asked.clear().with_columns(pl.lit(None, t).alias(n) for n, t in types.items())
        return asked.join(self._frame, on=KEY, maintain_order="left")

    def put(self, frame: pl.DataFrame) -> None:
        """Keep these rows."""
        import polars as pl

        if UNTIL not in frame.columns:
            frame = frame.with_columns(pl.lit(None, dtype=pl.Int64).alias(UNTIL))
        frame = frame.select(KEY, *self.columns, UNTIL)
        self.remove(frame[KEY])
        self._frame = frame if self._frame is None else pl.concat([self._frame, frame])

    def remove(self, keys: pl.Series) -> None:
        """Forget these keys."""
        import polars as pl

        if self._frame is not None:
            self._frame = self._frame.filter(~pl.col(KEY).is_in(keys.implode()))

    def forget(self, now_us: int) -> None:
        """Forget the rows whose time has passed."""
        import polars as pl

        if self._frame is not None:
            self._frame = self._frame.filter(pl.col(UNTIL).fill_null(now_us) >= now_us)

    @property
    def rows(self) -> int:
        """How many keys there are."""
        return 0 if self._frame is None else self._frame.height
