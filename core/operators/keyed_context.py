"""The context in which a keyed operator runs.

The grouping key of a step: its columns, computed and normalised.

Inside a keyed operator the key's columns have internal names, because `key: {at: to_date(at)}` may
give one the name of a column that an aggregate still reads. Output rows get their own names.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY, StepState
from headrace.core.api.state_backend import StateOwnership
from headrace.core.expressions.compilation import to_key_expr
from headrace.core.operators.operator import Output
from headrace.core.operators.rejected_rows import RejectedRowSampler
from headrace.core.plan.nodes import ComputedColumn
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import EVENT_TIME, ORDER
from headrace.core.types.frames import select_columns, to_integers
from headrace.core.types.key_groups import encode_keys, get_keyless_group
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

ALL_GROUPS = StateOwnership("", 0, range(1), 1)


@dataclass(frozen=True, slots=True)
class KeyedContext:
    """A keyed operator's stream, state and clock."""

    stream: str
    """The name of the operator's output stream."""
    state: StepState
    now_us: Callable[[], int]
    is_ordered: bool
    """Whether output rows must carry their position in the row order."""
    read_streams: frozenset[str]
    """The streams that have a reader."""
    owner: StateOwnership = ALL_GROUPS
    is_restored: bool = False
    """Whether the job resumes from a checkpoint."""
    is_aligned: bool = True
    """Whether all rows before the barrier of a checkpoint, and no others, have arrived at it."""
    rejected_rows: RejectedRowSampler | None = None
    """Takes samples of late rows."""
    ordered_side_outputs: frozenset[str] = frozenset()
    """The side outputs whose rows must carry their position in the row order."""

    @property
    def is_first(self) -> bool:
        """Whether this subtask has the first key group: it alone reports shared events."""
        return self.owner.groups.start == 0

    @property
    def owns_empty_key(self) -> bool:
        """Whether this subtask has the key group of all rows in a step without a key."""
        return get_keyless_group(self.owner.key_groups) in self.owner.groups

    def drop_late_rows(
        self, frame: pl.DataFrame, late_to: str | None
    ) -> Generator[Output, None, pl.DataFrame]:
        """Return the rows that are not older than the clock; count and emit the others as late."""
        times = to_integers(frame[EVENT_TIME])
        least_us = times.min()
        if least_us is None or int(least_us) >= self.state.clock_us:  # type: ignore[arg-type]
            return frame
        late = times < self.state.clock_us
        yield from self.emit_late_rows(late_to, frame.filter(late))
        return frame.filter(~late)

    def emit_late_rows(self, late_to: str | None, rows: pl.DataFrame) -> Iterator[Output]:
        """Count late rows, and emit them if their stream has a reader."""
        self.state.counters.late += rows.height
        if self.rejected_rows is not None and rows.height:
            self.rejected_rows.add_late_rows(rows, self.state.clock_us)
        if late_to in self.read_streams:
            yield late_to, rows


class GroupingKey:
    """The key of a step."""

    def __init__(self, key: Sequence[ComputedColumn]) -> None:
        self.names = tuple(each.name for each in key)
        self.internal_names = tuple(f"__k{at}" for at in range(len(key)))
        """The internal names of the key's columns."""
        self._exprs = [
            to_key_expr(each.value).alias(name)
            for each, name in zip(key, self.internal_names, strict=True)
        ]
        self.types = {
            name: to_polars(each.value.type)
            for each, name in zip(key, self.internal_names, strict=True)
        }

    def project_rows(self, frame: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
        """Project the key, the named columns, and those of event time and row order, if present."""
        wanted = {*columns, EVENT_TIME, ORDER}
        names = [name for name in frame.columns if name in wanted]
        if self._exprs or names:
            return select_columns(frame, *self._exprs, *names)
        return frame

    def project_columns(
        self, frame: pl.DataFrame, columns: Iterable[str], *more: pl.Expr
    ) -> pl.DataFrame:
        """Project the key, the named columns and the expressions; at least one reads a column."""
        return select_columns(frame, *self._exprs, *columns, *more)

    def encode_keys(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the frame with KEY, encoded from the columns of the key."""
        import polars as pl

        if not self.internal_names:
            return frame.with_columns(pl.lit("").alias(KEY))
        return frame.hstack([encode_keys(frame[list(self.internal_names)]).alias(KEY)])

    def restore_names(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rename the key's columns to the names that the user gave."""
        return frame.rename(dict(zip(self.internal_names, self.names, strict=True)))
