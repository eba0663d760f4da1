"""The output rows of a join: the join condition on pairs, and the columns that are emitted.

A pair is a row with the columns of both sides (JoinSideColumns). An unmatched row lacks those
of the other side, or has nulls in them, and is emitted with nulls. `semi` and `anti` emit rows of
the left side alone.

The matches of probing rows: as pairs to emit, or as the rows that have any match.

The output of complete windows or sessions, in which all rows that can match are present.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import find_columns
from headrace.core.operators.joins.join_probe import JoinProbe, ProbeIndex, RowPair
from headrace.core.operators.joins.join_sides import (
    LEFT,
    NUMBER_COLUMNS,
    RIGHT,
    TIME_COLUMNS,
    emits_unmatched,
)
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import MAX_OUTPUT_ROWS, Output
from headrace.core.plan import nodes
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import EVENT_TIME, ORDER, WEIGHT
from headrace.core.types.frames import (
    FEW_ROWS,
    filter_rows,
    gather_rows,
    pick_columns,
    select_columns,
)

if TYPE_CHECKING:
    import polars as pl


class JoinOutput:
    """The emitter of the rows of a join."""

    def __init__(
        self, operation: nodes.Join, stream: str, *, ordered: bool, bounds: tuple[str, ...] = ()
    ) -> None:
        """`bounds` are columns after those of the sides, which all rows have."""
        self._stream = stream
        self._ordered = ordered
        only = operation.residual_filter
        self._condition = None if only is None else to_expr(only.condition)
        self.condition_columns = frozenset[str]() if only is None else find_columns(only.condition)
        """The columns that the join condition reads."""
        self.is_one_sided = operation.type in ("semi", "anti")
        """Whether only rows of the left side are emitted."""
        self._timed = operation.has_event_time
        sides = (operation.left,) if self.is_one_sided else (operation.left, operation.right)
        self._types: Mapping[str, pl.DataType] = {
            **{each.name: to_polars(each.value.type) for side in sides for each in side.columns},
            **dict.fromkeys(bounds, to_polars(TIMESTAMP)),
        }

    @property
    def has_condition(self) -> bool:
        """Whether there is a condition besides the equality of keys."""
        return self._condition is not None

    def filter_pairs(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """Return the pairs that pass the condition."""
        return (
            pairs if self._condition is None or not pairs.height else pairs.filter(self._condition)
        )

    def emit(self, pairs: pl.DataFrame) -> Iterator[Output]:
        """Emit these pairs and unmatched rows in bounded batches.

        Their time is EVENT_TIME if they have it, else the later one of both sides.
        """
        for start in range(0, pairs.height, MAX_OUTPUT_ROWS):
            yield self._stream, self._build_rows(pairs.slice(start, MAX_OUTPUT_ROWS))

    def emit_whole(self, pairs: pl.DataFrame) -> Iterator[Output]:
        """Emit these pairs and unmatched rows in one batch."""
        if pairs.height:
            yield self._stream, self._build_rows(pairs)

    def _build_rows(self, pairs: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        there = frozenset(pairs.columns)
        shown = [
            pl.col(name) if name in there else pl.repeat(None, pl.len(), dtype=type).alias(name)
            for name, type in self._types.items()
        ]
        time = self._build_time(pairs)
        hidden = [] if time is None else [time.cast(to_polars(TIMESTAMP)).alias(EVENT_TIME)]
        if WEIGHT in there:
            hidden.append(pl.col(WEIGHT))
        if self._ordered:
            hidden.append(self._build_position(pairs, time))
        return select_columns(pairs, *shown, *hidden)

    def _build_time(self, pairs: pl.DataFrame) -> pl.Expr | None:
        """Return the time of each row (microseconds); None: rows have none."""
        import polars as pl

        if not self._timed:
            return None
        if EVENT_TIME in pairs.columns:
            return pl.col(EVENT_TIME).cast(pl.Int64)
        known = [name for name in self._select_sides(TIME_COLUMNS) if name in pairs.columns]
        return pl.max_horizontal(known) if len(known) > 1 else pl.col(known[0])

    def _build_position(self, pairs: pl.DataFrame, time: pl.Expr | None) -> pl.Expr:
        """Return the position in the row order: by time, by the left row, by the right one."""
        import polars as pl

        none = pl.lit(0, dtype=pl.Int64)
        known = [name for name in self._select_sides(NUMBER_COLUMNS) if name in pairs.columns]
        of_right = (
            pl.col(NUMBER_COLUMNS[RIGHT]).fill_null(0) if NUMBER_COLUMNS[RIGHT] in known else none
        )
        if NUMBER_COLUMNS[LEFT] not in known:
            of_right += 1  # in a self-join, rows emitted for the left side come first
        elif len(known) > 1:
            of_right += pl.col(NUMBER_COLUMNS[LEFT]).is_null().cast(pl.Int64)
        return pl.struct(
            (none if time is None else time).alias("time"),
            pl.coalesce(*known).alias("at"),
            of_right.alias("part"),
        ).alias(ORDER)

    def _select_sides(self, names: tuple[str, str]) -> tuple[str, ...]:
        """Return the columns, of one for each side, that output rows have."""
        return names[:RIGHT] if self.is_one_sided else names


PROBE_NUMBER, MATCH_NUMBER = "__asks", "__meets"


class MatchedPairs:
    """The matched pairs of a probe; `probe_rows` and `there` are the output columns of its rows."""

    def __init__(
        self, pairs: JoinOutput, probe: JoinProbe, probe_rows: pl.DataFrame, there: pl.DataFrame
    ) -> None:
        self._pairs, self._probe = pairs, probe
        self._probe_rows, self._stored_rows = probe_rows, there

    def iterate_rows(self) -> Iterator[pl.DataFrame]:
        """Return the pairs that pass the join condition, in bounded batches."""
        for asks, meets in self.find_pairs():
            yield gather_rows(self._probe_rows, asks).hstack(gather_rows(self._stored_rows, meets))

    def find_matched(self) -> pl.Series:
        """Return the numbers of the probing rows that have a match, each once, in order."""
        import polars as pl

        if not self._pairs.has_condition:
            return self._probe.find_matched()
        found = [asks.unique() for asks, _ in self.find_pairs()]
        return pl.concat(found).unique().sort() if found else pl.Series([], dtype=pl.UInt32)

    def find_pairs(self) -> Iterator[RowPair]:
        """Return the row numbers of the pairs that pass the join condition."""
        if not self._pairs.has_condition:
            yield from self._probe.iterate_pairs()
            return
        of_asking, of_there = (
            pick_columns(
                frame, [name for name in frame.columns if name in self._pairs.condition_columns]
            )
            for frame in (self._probe_rows, self._stored_rows)
        )
        for asks, meets in self._probe.iterate_pairs():
            numbers = asks.alias(PROBE_NUMBER).to_frame().hstack([meets.alias(MATCH_NUMBER)])
            read = (gather_rows(of_asking, asks), gather_rows(of_there, meets))
            found = self._pairs.filter_pairs(numbers.hstack(read[0]).hstack(read[1]))
            if found.height:
                yield found[PROBE_NUMBER], found[MATCH_NUMBER]


def drop_rows(rows: pl.DataFrame, met: pl.Series) -> pl.DataFrame:
    """Return the rows except those with these numbers."""
    import polars as pl

    if not len(met):
        return rows
    # `pl.repeat` and `DataFrame.filter` would build queries, which takes long for few rows.
    rest = pl.Series([True], dtype=pl.Boolean).new_from_index(0, rows.height).scatter(met, False)
    return filter_rows(rows, rest) if rows.height < FEW_ROWS else rows.filter(rest)


class OutputSide(Protocol):
    """The rows of one side."""

    def project_output(self, rows: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
        """Return the output columns of rows, and the given expressions."""
        ...


class WindowJoinOutput:
    """The emitter of matching rows of a window: rows equal by `on`, including the window."""

    def __init__(
        self,
        operation: nodes.Join,
        context: KeyedContext,
        sides: Sequence[OutputSide],
        on: Sequence[str],
        bounds: tuple[pl.Expr, pl.Expr] | None,
    ) -> None:
        """`bounds`: the start and end of a row's window; None: it has no bounds."""
        self._type = operation.type
        self._sides, self._join_columns = sides, on
        self.unmatched_sides = [
            which for which in (LEFT, RIGHT) if emits_unmatched(operation.type, which)
        ]
        """The sides whose unmatched rows are emitted."""
        names = nodes.WINDOW_BOUNDS if bounds else ()
        self._pairs = JoinOutput(
            operation, context.stream, ordered=context.is_ordered, bounds=names
        )
        self._bound_columns = _build_bounds(*bounds) if bounds else []

    def emit_window(
        self, sides: tuple[pl.DataFrame, pl.DataFrame], new: pl.Expr | None = None
    ) -> Iterator[Output]:
        """Emit the join of these rows; `new` selects among the pairs."""
        probe = self._probe(LEFT, sides)
        if self._type == "semi":
            yield from self.emit_alone(LEFT, sides[LEFT][probe.find_matched()])
        elif self._type != "anti":
            for pairs in probe.iterate_rows():
                yield from self._pairs.emit(pairs if new is None else pairs.filter(new))
        for which in self.unmatched_sides:
            met = (probe if which == LEFT else self._probe(RIGHT, sides)).find_matched()
            yield from self.emit_alone(which, drop_rows(sides[which], met))

    def emit_alone(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        """Emit rows of a side alone."""
        return self._pairs.emit(self._project_output(which, rows))

    def _probe(self, which: int, sides: tuple[pl.DataFrame, pl.DataFrame]) -> MatchedPairs:
        own, other = sides[which], sides[1 - which]
        there = self._sides[1 - which].project_output(other)
        return MatchedPairs(
            self._pairs,
            JoinProbe(own, ProbeIndex(other, self._join_columns)),
            self._project_output(which, own),
            there,
        )

    def _project_output(self, which: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self._sides[which].project_output(rows, *self._bound_columns)


def _build_bounds(start: pl.Expr, end: pl.Expr) -> list[pl.Expr]:
    """Return the bounds as output columns, and the event time of their rows."""
    stamp = to_polars(TIMESTAMP)
    bounds = zip(nodes.WINDOW_BOUNDS, (start, end), strict=True)
    return [*(at.cast(stamp).alias(name) for name, at in bounds), (end - 1).alias(EVENT_TIME)]
