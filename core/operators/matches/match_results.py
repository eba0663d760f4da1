"""The rows that are emitted for matches, and for partial matches that ran out of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.aggregates import compute_partial_states, deduplicate_calls
from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.matches.match_rows import MATCH, MatchedRowColumns
from headrace.core.operators.operator import MAX_OUTPUT_ROWS, Output
from headrace.core.patterns.runs import TIME, Decision, list_rows
from headrace.core.plan.nodes import (
    INCOMPLETE_FIELDS,
    MATCH_BOUNDS,
    VARIABLE,
    VARIABLE_FIELD,
    Match,
)
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import EVENT_TIME, ORDER
from headrace.core.types.key_groups import compute_key_groups, encode_keys
from headrace.core.types.row_order import add_row_order, number_parts

if TYPE_CHECKING:
    import polars as pl

Results: TypeAlias = "tuple[pl.DataFrame | None, pl.DataFrame | None]"
"""The rows of matches, and those of partial matches; None: there are none."""

START, END = (field.name for field in MATCH_BOUNDS)
REACHED, ROW_COUNT = (field.name for field in INCOMPLETE_FIELDS[1:])


class MatchOutput:
    """The emitter of the rows of matches, in the order of their times and keys."""

    def __init__(self, match: Match, context: KeyedContext) -> None:
        self._context = context
        self._key = [each.name for each in match.key]
        self._names = list(match.schema.names)
        self._partial_names = list(match.incomplete_schema.names)
        self._incomplete_to = match.incomplete_to

    def emit(self, results: Sequence[Results]) -> Iterator[Output]:
        """Emit matches, then partial matches."""
        import polars as pl

        complete = [rows for rows, _ in results if rows is not None]
        if complete:
            yield from self._emit_frame(self._context.stream, self._names, pl.concat(complete))
        stream = self._incomplete_to
        partial = [rows for _, rows in results if rows is not None]
        if partial and stream is not None and stream in self._context.read_streams:
            yield from self._emit_frame(stream, self._partial_names, pl.concat(partial))

    def _emit_frame(self, stream: str, names: list[str], frame: pl.DataFrame) -> Iterator[Output]:
        import polars as pl

        key = self._key
        tie = (
            compute_key_groups(encode_keys(frame.select(key)), 1 << 31)
            if key
            else pl.Series("at", [0], dtype=pl.Int64).new_from_index(0, frame.height)
        )
        frame = frame.with_columns(tie.cast(pl.Int64).alias("__tie"))
        frame = frame.sort(EVENT_TIME, "__tie", maintain_order=True)
        frame = add_row_order(frame, pl.col("__tie"))
        number = pl.int_range(pl.len(), dtype=pl.Int64).over(EVENT_TIME, *key)
        context = self._context
        is_ordered = stream in context.ordered_side_outputs or (
            stream == context.stream and context.is_ordered
        )
        hidden = (EVENT_TIME, ORDER) if is_ordered else (EVENT_TIME,)
        frame = number_parts(frame, number).select(*names, *hidden)
        for start in range(0, frame.height, MAX_OUTPUT_ROWS):
            yield stream, frame.slice(start, MAX_OUTPUT_ROWS)


class MatchResults:
    """The rows of the matches of one pattern."""

    def __init__(self, match: Match, columns: MatchedRowColumns) -> None:
        self._match = match
        self._columns = columns
        self._grouping = GroupingKey(match.key)
        self._calls = deduplicate_calls(column.expression for column in match.emit)
        self._finish = [
            to_expr(column.expression.finish).alias(column.name) for column in match.emit
        ]

    def build(self, decisions: Sequence[Decision]) -> Results:
        """Return the rows of matches and of partial matches, with the times that decided them."""
        complete = [each for each in decisions if each.is_complete]
        build = self._build_rows if self._match.all_rows else self._build_matches
        rows = build(complete) if complete else None
        if self._match.incomplete_to is None or len(complete) == len(decisions):
            return rows, None
        return rows, self._build_matches([each for each in decisions if not each.is_complete])

    def _build_matches(self, decisions: Sequence[Decision]) -> pl.DataFrame:
        """Return a row for each match, with what is emitted for it."""
        import polars as pl

        time = to_polars(TIMESTAMP)
        rows = self._columns.build_frame(each.history for each in decisions)
        inside = self._grouping.internal_names
        more = [
            *(pl.col(name).first() for name in inside),
            pl.col(EVENT_TIME).first().alias(START),
            pl.col(EVENT_TIME).last().alias(END),
            pl.col(VARIABLE).last().alias(REACHED),
            pl.len().cast(pl.Int64).alias(ROW_COUNT),
        ]
        states = compute_partial_states(rows, (MATCH,), self._calls, more).sort(MATCH)
        finished = states.with_columns(call.finish() for call in self._calls)
        decided = pl.Series(EVENT_TIME, [each.time_us for each in decisions], dtype=pl.Int64)
        made = finished.select(
            *(
                pl.col(name).alias(given)
                for name, given in zip(inside, self._grouping.names, strict=True)
            ),
            START,
            END,
            REACHED,
            ROW_COUNT,
            *self._finish,
        )
        return made.with_columns(decided.cast(time))

    def _build_rows(self, decisions: Sequence[Decision]) -> pl.DataFrame:
        """Return a row for each row of the matches."""
        import polars as pl

        time = to_polars(TIMESTAMP)
        rows = self._columns.build_frame(each.history for each in decisions)
        bounds = pl.DataFrame(
            {
                MATCH: pl.Series(range(len(decisions)), dtype=pl.UInt32),
                START: [list_rows(each.history)[0][1][TIME] for each in decisions],
                END: [each.history[2][TIME] for each in decisions],
                "__decided": [each.time_us for each in decisions],
            }
        )
        joined = rows.join(bounds, on=MATCH, how="left", maintain_order="left")
        keys = set(self._grouping.names)
        others = (f.name for f in self._match.matched_row if f.name not in keys)
        return joined.select(
            *(
                pl.col(name).alias(given)
                for name, given in zip(
                    self._grouping.internal_names, self._grouping.names, strict=True
                )
            ),
            pl.col(START).cast(time),
            pl.col(END).cast(time),
            pl.col(VARIABLE).alias(VARIABLE_FIELD.name),
            *others,
            pl.col("__decided").cast(time).alias(EVENT_TIME),
        )
