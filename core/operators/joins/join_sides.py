"""The columns, time bounds and stored rows of one side of a join, shared by the join operators.

- `JoinSideColumns` says which columns of an input row are stored. The key has the same columns on
  both sides, normalised for comparison: zero has no sign, and all NaNs are equal. A row with a null
  in its key matches nothing. The other columns are the output columns of the join; they and the
  hidden columns of both sides have distinct names.
- `SymmetricJoin` is the base of joins that process the rows of both sides in the same way.
- `TimeBounds` is the time arithmetic of `within`: how long a row may match future rows, and how
  long it is stored.
- `JoinSideBuffer` stores the rows of one side that others may still match, in runs by time.

The times of a pair are `least_us` to `most_us` apart, seen from the left row. So a left row can
match future rows until the clock is later than its time plus `most_us`, a right one until it is
later than its time less `least_us`. Only then is it known whether a row had a match. That is found
out by probing the stored rows of the other side, which are therefore stored as long as a row that
they may have matched is undecided.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from headrace.core.api.state import NO_CLOCK_US, SLOT, RunsLayout
from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import Output
from headrace.core.operators.run_lookup import count_lookup_rows, is_selective
from headrace.core.plan import nodes
from headrace.core.plan.nodes import JoinType
from headrace.core.types.data_types import BIGINT, to_polars
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US, ORDER
from headrace.core.types.frames import pick_columns, select_columns
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


LEFT, RIGHT = 0, 1


TIME_COLUMNS = ("__left_time", "__right_time")
"""The event time of a row of each side (microseconds); null where rows have none."""


NUMBER_COLUMNS = ("__left_at", "__right_at")
"""The position of a row of each side in the row order, where rows must carry it."""


class JoinSideColumns:
    """The stored columns of one side: its key, its output columns and its hidden columns."""

    def __init__(self, operation: nodes.Join, which: int, *, ordered: bool) -> None:
        side = operation.right if which == RIGHT else operation.left
        self.grouping = GroupingKey(side.key)
        self.key = self.grouping.internal_names
        """The internal names of the key's columns, on both sides."""
        self.columns = tuple(each.name for each in side.columns)
        self.time = TIME_COLUMNS[which]
        self.number = NUMBER_COLUMNS[which] if ordered else None
        hidden = (self.time,) if self.number is None else (self.time, self.number)
        self.types: dict[str, pl.DataType] = {
            **self.grouping.types,
            **{each.name: to_polars(each.value.type) for each in side.columns},
            **dict.fromkeys(hidden, to_polars(BIGINT)),
        }
        """The types of all stored columns."""
        self._exprs = [to_expr(each.value).alias(each.name) for each in side.columns]

    def project_input(self, frame: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
        """Return the stored columns of input rows, followed by the given expressions."""
        import polars as pl

        if EVENT_TIME in frame.columns:
            time = pl.col(EVENT_TIME).cast(pl.Int64)
        else:
            time = pl.repeat(None, pl.len(), dtype=pl.Int64)
        hidden = [time.alias(self.time)]
        if self.number is not None:
            hidden.append(pl.col(ORDER).struct.field("at").alias(self.number))
        return self.grouping.project_columns(frame, (), *self._exprs, *hidden, *more)

    def project_pair_columns(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the key and the output columns of input rows."""
        return self.grouping.project_columns(frame, (), *self._exprs)

    def encode_keys(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add the column KEY, the encoded key, which is never null."""
        return self.grouping.encode_keys(rows)

    def find_null_keys(self, rows: pl.DataFrame) -> pl.Series | None:
        """Return a mask of rows with a null in their key, which match nothing; None if none has."""
        import polars as pl

        if not any(rows[name].null_count() for name in self.key):
            return None
        null = pl.any_horizontal(pl.col(name).is_null() for name in self.key)
        return select_columns(rows, null.alias("null"))["null"]


class SymmetricJoin(ABC):
    """An operator that processes the rows of both sides in the same way."""

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process left rows."""
        return self._process_side(LEFT, frame)

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process right rows."""
        return self._process_side(RIGHT, frame)

    @abstractmethod
    def _process_side(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        """Process rows of a side."""


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """The bounds of the time between matching rows, and what follows from them for each side."""

    least_us: int
    most_us: int
    type: JoinType

    def get_range(self, which: int) -> tuple[int, int]:
        """Return the least and greatest time from a row of this side to a matching row."""
        if which == LEFT:
            return self.least_us, self.most_us
        return -self.most_us, -self.least_us

    def get_open_us(self, which: int) -> int:
        """Return how long a row of this side may match future rows."""
        return self.get_range(which)[1]

    def get_retention_us(self, which: int) -> int:
        """Return how long a row of this side is stored."""
        open_us = self.get_open_us(which)
        return (
            max(open_us, self.most_us - self.least_us) if self.needs_matches(1 - which) else open_us
        )

    def needs_matches(self, which: int) -> bool:
        """Whether the result depends on whether a row of this side had a match before."""
        return emits_unmatched(self.type, which) or (self.type == "semi" and which == LEFT)

    @property
    def watermark_delay_us(self) -> int:
        """The greatest age of a row that is emitted because it had no match; 0 if none is."""
        return max(
            [0, *(self.get_open_us(which) for which in (LEFT, RIGHT) if self.needs_matches(which))]
        )


def emits_unmatched(type: JoinType, which: int) -> bool:
    """Whether rows of this side without a match are emitted."""
    return type in (("left", "full", "anti") if which == LEFT else ("right", "full"))


def compute_expired_us(clock_us: int, for_us: int) -> int:
    """Return the latest time whose rows, stored for `for_us`, have expired at the clock."""
    if clock_us in (NO_CLOCK_US, MAX_WATERMARK_US):
        return clock_us
    return max(clock_us - for_us - 1, NO_CLOCK_US)


SIDE_STATES = ("left", "right")
"""The names of the states of both sides."""


FEW_KEYS = 64
"""Up to this number, looking up keys that repeat takes less time than finding out that they do."""


class JoinSideBuffer:
    """The stored rows of one side, with the columns of the side and SLOT, in runs by time."""

    def __init__(
        self,
        operation: nodes.Join,
        which: int,
        context: KeyedContext,
        time: Literal["kept", "slot", "lost"] = "kept",
    ) -> None:
        """`time`: whether the event time of a row is a stored column, its slot, or not stored."""
        self.side = side = JoinSideColumns(operation, which, ordered=context.is_ordered)
        self.key = side.key
        self._time = side.time if time == "slot" else None
        types = dict(side.types)
        if time != "kept":
            del types[side.time]
        self.runs = context.state.open_runs(
            SIDE_STATES[which], RunsLayout(types, side.key, _skip_merge)
        )
        hidden = [name for name in (side.time, side.number) if name in types]
        self._output_columns = (*side.columns, *hidden)
        self._columns = tuple(types)
        self._types = {**types, SLOT: to_polars(BIGINT)}

    @property
    def row_count(self) -> int:
        """The number of stored rows."""
        return self.runs.rows

    @property
    def empty_frame(self) -> pl.DataFrame:
        """An empty frame of stored rows."""
        import polars as pl

        return pl.DataFrame(schema=self._types)

    def project_input(self, frame: pl.DataFrame, slot: pl.Expr | None = None) -> pl.DataFrame:
        """Convert input rows to stored rows; SLOT is their time, or the given expression."""
        rows = self.side.project_input(frame)
        if slot is not None:
            return select_columns(rows, *self._columns, slot.alias(SLOT))
        return pick_columns(rows, self._columns, rows[self.side.time].alias(SLOT))

    def project_output(self, rows: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
        """Return the output columns of stored rows, and the given expressions."""
        if more:
            assert self._time is None, "with window bounds, rows are emitted without their time"
            return select_columns(rows, *self._output_columns, *more)
        time = [] if self._time is None else [rows[SLOT].alias(self._time)]
        return pick_columns(rows, self._output_columns, *time)

    def find_candidates(
        self, probe_rows: pl.DataFrame, near: tuple[int, int] | None
    ) -> pl.DataFrame | None:
        """Return a superset of the stored rows that these rows may match; None if there are none.

        `near`: the bounds of the time from a row to its match; None if any time matches.
        """
        after, until = _compute_reach(probe_rows[SLOT], near)
        if not is_selective(self.runs, probe_rows.height):
            return self.runs.read(after, until)
        keys = pick_columns(probe_rows, self.key)
        return self.runs.read_keys(keys.unique() if keys.height > FEW_KEYS else keys, after)

    def count_deferred_rows(self, probe_count: int) -> int:
        """Return the number of stored rows that a probe with this number of rows has to process."""
        return count_lookup_rows(self.runs, probe_count)


def _compute_reach(slots: pl.Series, near: tuple[int, int] | None) -> tuple[int, int]:
    if near is None:
        return -1, MAX_WATERMARK_US
    return int(slots.min()) + near[0] - 1, int(slots.max()) + near[1]  # type: ignore[arg-type]


def _skip_merge(rows: pl.DataFrame) -> pl.DataFrame:
    return rows
