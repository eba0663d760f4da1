"""Stateless operators: projections and filters, `explode`, `route`.

A run of `where`, `select`, `with` and `drop` is compiled to one filter and one select. Expressions
are inlined until each reads only input columns, so a chain of steps costs two calls per batch,
however long it is. A computed column that is read more than once is not inlined: a second filter
and select begin there. Conditions may be moved before projections because these expressions never
fail; those that may are in `checked_rows`. The rows that pass each
step are still counted: the conditions of all steps are computed as masks, in one call.

`explode` makes a row for each element of an array. Output batches are bounded, however long the
arrays are: rows are exploded in runs, and a single array that is too long in slices. Where rows
have a position in the row order, the rows made from one array are numbered parts of its position.

A union of changes gives rows of append-only inputs a weight; `changes: true` makes rows of changes;
`event_time` gives rows that may be removed another time.

`route` sends each row to the first branch whose condition is true, and to `else` if none is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import (
    PROCESSING_TIME,
    ColumnReference,
    FunctionCall,
    ProcessingTime,
    TypedExpression,
    find_columns,
    substitute_columns,
    walk,
)
from headrace.core.operators.changelog.weighted_rows import get_weights, make_change_rows
from headrace.core.operators.operator import MAX_OUTPUT_ROWS, Output, StatelessOperator
from headrace.core.plan import nodes
from headrace.core.plan.nodes import Filter, Project
from headrace.core.plan.row_expressions import EVENT_TIME_REFERENCE
from headrace.core.types.elements import (
    DELETE,
    EVENT_TIME,
    HIDDEN_COLUMNS,
    ORDER,
)
from headrace.core.types.frames import select_columns
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.row_order import number_parts, update_row_time

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class ProjectionStage:
    """Conditions and output columns over the same input; without `columns` they are the input's."""

    conditions: tuple[tuple[str, TypedExpression], ...] = ()
    """The conditions, each after the name of its step."""
    columns: dict[str, TypedExpression] | None = None

    def with_operation(self, step: str, operation: Filter | Project) -> ProjectionStage:
        """Return this stage with one more operation inlined."""
        if isinstance(operation, Filter):
            condition = self._inline_columns(operation.condition)
            return replace(self, conditions=(*self.conditions, (step, condition)))
        named = {c.name: self._inline_columns(c.value) for c in operation.columns}
        return replace(self, columns=named)

    def recomputes_columns(self, operation: Filter | Project) -> bool:
        """Whether inlining the operation would compute a column more than once."""
        if self.columns is None:
            return False
        values = (
            [operation.condition]
            if isinstance(operation, Filter)
            else [column.value for column in operation.columns]
        )
        reads = Counter(n.name for v in values for n in walk(v) if isinstance(n, ColumnReference))
        # A column read by a condition is computed a second time for the projection.
        again = 1 if isinstance(operation, Filter) else 0
        return any(
            reads[name] + again > 1
            for name, value in self.columns.items()
            if name in reads and isinstance(value, FunctionCall)
        )

    def _inline_columns(self, typed: TypedExpression) -> TypedExpression:
        if self.columns is None:
            return typed
        return substitute_columns(typed, {EVENT_TIME: EVENT_TIME_REFERENCE, **self.columns})


def build_stages(operations: Iterable[tuple[str, Filter | Project]]) -> list[ProjectionStage]:
    """Group the operations, each with its step, into as few stages as possible."""
    done: list[ProjectionStage] = [ProjectionStage()]
    for step, operation in operations:
        if done[-1].recomputes_columns(operation):
            done.append(ProjectionStage())
        done[-1] = done[-1].with_operation(step, operation)
    return done


class ProjectionOperator(StatelessOperator):
    """The operator of consecutive filters and projections of one or more steps.

    `now_us` is the clock for processing time. `passed_rows` counts the rows that pass the
    conditions of each step.
    """

    def __init__(
        self,
        stream: str,
        operations: Iterable[tuple[str, Filter | Project]],
        now_us: Callable[[], int],
    ) -> None:
        self._stream = stream
        self._now_us = now_us
        self._kernels = [ProjectionKernel(stage) for stage in build_stages(operations)]
        self._needs_now = any(kernel.needs_now for kernel in self._kernels)
        steps = (step for kernel in self._kernels for step in kernel.steps)
        self.passed_rows: Counter[str] = Counter(dict.fromkeys(steps, 0))

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the rows that pass all conditions, with the output columns."""
        if self._needs_now:
            frame = _add_clock_column(frame, self._now_us())
        for kernel in self._kernels:
            if frame.height:
                frame = kernel(frame, self.passed_rows)
        if self._needs_now:
            frame = frame.drop(PROCESSING_TIME, strict=False)
        yield self._stream, frame


def _add_clock_column(frame: pl.DataFrame, now_us: int) -> pl.DataFrame:
    import polars as pl

    return frame.with_columns(pl.lit(now_us).alias(PROCESSING_TIME))


class ProjectionKernel:
    """A stage compiled to Polars expressions."""

    def __init__(self, stage: ProjectionStage) -> None:
        self.steps = [step for step, _ in stage.conditions]
        self._conditions = [to_expr(condition) for _, condition in stage.conditions]
        named = stage.columns or {}
        self._exprs = [to_expr(value).alias(name) for name, value in named.items()]
        self._names = tuple(named) if stage.columns is not None else None
        self._reads = any(find_columns(value) for value in named.values())
        values = (*(condition for _, condition in stage.conditions), *named.values())
        self.needs_now = any(isinstance(n, ProcessingTime) for v in values for n in walk(v))
        self._plain = all(
            isinstance(value, ColumnReference) and value.name == name
            for name, value in named.items()
        )

    def __call__(self, frame: pl.DataFrame, passed: Counter[str]) -> pl.DataFrame:
        """Filter and project the rows; the result has the hidden columns of the frame as well.

        A changelog row that does not pass becomes the delete of its key.
        """
        if self._conditions:
            frame = self._filter_rows(frame, passed)
        if self._names is None:
            return frame
        hidden = [name for name in (*HIDDEN_COLUMNS, PROCESSING_TIME) if name in frame.columns]
        if self._plain:
            return select_columns(frame, *self._names, *hidden)
        if self._reads or hidden:
            return select_columns(frame, *self._exprs, *hidden)
        # Constants alone have no height: they take the frame's before its columns are dropped.
        return frame.with_columns(*self._exprs).select(*self._names)

    def _filter_rows(self, frame: pl.DataFrame, passed: Counter[str]) -> pl.DataFrame:
        masks = self._compute_masks(frame)
        whole = masks[0]
        for step, mask in zip(self.steps, masks, strict=True):
            whole = whole & mask
            passed[step] += (passed_count := int(whole.sum()))
        if DELETE in frame.columns:
            return frame.with_columns(frame[DELETE] | ~whole.fill_null(False))
        # A filter wakes threads, even for a single row: worth it only if some rows are dropped.
        return (
            frame.head(passed_count) if passed_count in (0, frame.height) else frame.filter(whole)
        )

    def _compute_masks(self, frame: pl.DataFrame) -> list[pl.Series]:
        """Return the values of each condition."""
        named = [condition.alias(str(at)) for at, condition in enumerate(self._conditions)]
        masks = select_columns(frame, *named)
        if masks.height != frame.height:  # every condition is a constant
            masks = frame.with_columns(named).select(masks.columns)
        return masks.get_columns()


ELEMENT_NUMBER = "__number"
"""The index of a row's element in its array."""


class ExplodeOperator(StatelessOperator):
    """The operator of `explode`: a row for each element of an array.

    A row without elements is dropped, or emitted with a null if the step says `outer`.
    """

    def __init__(
        self, stream: str, operation: nodes.Explode, now_us: Callable[[], int] = lambda: 0
    ) -> None:
        import polars as pl

        self._stream = stream
        self._name = operation.name
        self._outer = operation.outer
        self._position, self._fields = operation.position, operation.fields
        self._now_us = now_us
        self._needs_now = any(isinstance(node, ProcessingTime) for node in walk(operation.array))
        self._array = to_expr(operation.array).alias(operation.name)
        # Rows may share arrays, so the elements of all rows together may exceed 32 bits.
        length = pl.col(operation.name).list.len().cast(pl.Int64).fill_null(0)
        numbers = pl.int_ranges(0, length)
        self._numbers = pl.when(pl.col(operation.name).is_not_null()).then(numbers)
        self._length = length.clip(lower_bound=1) if operation.outer else length

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the exploded rows, in bounded batches."""
        import polars as pl

        if self._needs_now:
            frame = frame.with_columns(pl.lit(self._now_us()).alias(PROCESSING_TIME))
        frame = frame.with_columns(self._array).drop(PROCESSING_TIME, strict=False)
        lengths = frame.select(self._length).to_series()
        if lengths.sum() <= MAX_OUTPUT_ROWS:
            yield self._explode_rows(frame)
            return
        for start, count in _split_runs(lengths):
            piece = frame.slice(start, count)
            if count > 1 or lengths[start] <= MAX_OUTPUT_ROWS:
                yield self._explode_rows(piece)
            else:
                yield from self._emit_slices(piece, lengths[start])

    def _emit_slices(self, row: pl.DataFrame, length: int) -> Iterator[Output]:
        array = row[self._name]
        for at in range(0, length, MAX_OUTPUT_ROWS):
            yield self._explode_rows(row.with_columns(array.list.slice(at, MAX_OUTPUT_ROWS)), at)

    def _explode_rows(self, frame: pl.DataFrame, first: int = 0) -> Output:
        """Explode the rows; `first` is the index of each array's first element."""
        # An empty array and a null one are the same to Spark: a null if outer, else nothing.
        if ORDER not in frame.columns and not self._position:
            return self._stream, self._spread_fields(self._explode_columns(frame, self._name))
        numbered = frame.with_columns(self._numbers.alias(ELEMENT_NUMBER))
        exploded = self._explode_columns(numbered, self._name, ELEMENT_NUMBER)
        number = exploded[ELEMENT_NUMBER] + first
        rows = self._spread_fields(exploded.drop(ELEMENT_NUMBER))
        if self._position:
            import polars as pl

            rows = rows.with_columns(number.cast(pl.Int32).alias(self._position))
        return self._stream, number_parts(rows, number.fill_null(0)) if ORDER in rows else rows

    def _spread_fields(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with the fields of the elements as columns, if that is wanted."""
        if not self._fields:
            return rows
        fields = rows[self._name].struct.rename_fields(self._fields).struct.unnest()
        return rows.drop(self._name).with_columns(fields.get_columns())

    def _explode_columns(self, frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
        return frame.explode(columns, empty_as_null=self._outer, keep_nulls=self._outer)


def _split_runs(lengths: pl.Series) -> Iterator[tuple[int, int]]:
    """Yield runs of rows, as (first, count), with at most MAX_OUTPUT_ROWS elements each.

    A single row with more elements is a run of its own.
    """
    ends = lengths.cum_sum()
    start, done = 0, 0
    while start < len(ends):
        stop = int(ends.search_sorted(done + MAX_OUTPUT_ROWS, side="right"))
        stop = max(stop, start + 1)
        yield start, stop - start
        start, done = stop, int(ends[stop - 1])


class WeightConversionOperator(StatelessOperator):
    """The operator that gives rows of append-only inputs of a union the weight 1."""

    def __init__(self, stream: str) -> None:
        self._stream = stream

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the rows with weights; those of all inputs have their columns in one order."""
        rows = frame.with_columns(get_weights(frame))
        hidden = [name for name in HIDDEN_COLUMNS if name in rows.columns]
        shown = [name for name in rows.columns if name not in hidden]
        yield self._stream, select_columns(rows, *shown, *hidden)


class ChangeColumnOperator(StatelessOperator):
    """The operator that makes facts of changes: a row for each copy that is added or removed."""

    def __init__(self, stream: str) -> None:
        self._stream = stream

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the changes, with the column CHANGE."""
        yield self._stream, make_change_rows(frame)


class RowTimeOperator(StatelessOperator):
    """The operator that computes the event time of rows that may be removed."""

    def __init__(self, stream: str, operation: nodes.RowTime) -> None:
        self._stream = stream
        self._time = to_expr(operation.value)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the rows with their new time."""
        rows = frame.with_columns(self._time.alias(EVENT_TIME))
        yield self._stream, update_row_time(rows) if ORDER in rows.columns else rows


class RouteOperator(StatelessOperator):
    """The operator of `route`; rows of outputs that are not `wanted` are dropped."""

    def __init__(self, step: str, operation: nodes.Route, wanted: frozenset[str]) -> None:
        import polars as pl

        self._streams = operation.list_streams(step)
        self._wanted = wanted
        branch = pl.lit(len(operation.branches), dtype=pl.Int32)
        for at, (_, condition, _) in reversed(list(enumerate(operation.branches))):
            branch = pl.when(to_expr(condition)).then(pl.lit(at, dtype=pl.Int32)).otherwise(branch)
        self._branch = branch.alias("__branch")

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the rows of each output, in the order of the branches."""
        chosen = frame.with_columns_seq(self._branch)["__branch"]
        low, high = chosen.min(), chosen.max()
        for at, stream in enumerate(self._streams):
            if stream in self._wanted and low == high == at:
                yield stream, frame
            elif stream in self._wanted and low != high:
                yield stream, frame.filter(chosen == at)
