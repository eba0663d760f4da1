"""`broadcast`: every subtask stores the whole small input, which the other input's rows match.

Right rows are versions: with event time one is valid from its time until another of the same key
comes, and left rows wait until both inputs have passed them. By arrival, the rows that have arrived
are valid.

The state is not keyed. A right row is in every subtask, which forgets it as its own clock advances,
so after a restart each subtask restores the union of all; waiting left rows are redistributed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from headrace.core.api.state import Entries, Redistribution
from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.joins.join_sides import (
    LEFT,
    NUMBER_COLUMNS,
    RIGHT,
    TIME_COLUMNS,
    JoinSideColumns,
)
from headrace.core.operators.joins.matched_pairs import JoinOutput
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import (
    MAX_OUTPUT_ROWS,
    ClocklessOperator,
    Output,
    UndelayedOperator,
)
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import BroadcastMatch
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, ORDER

if TYPE_CHECKING:
    import polars as pl

WAITING_STATE, RULES_STATE = "waiting", "rules"
MAX_PAIRS = 500_000
"""The approximate number of pairs considered at once."""

PART_NUMBER = "__part"
"""The part number of a row made from another; time, number and part are its position."""
IS_DELETE = "__gone"
"""Whether a changelog row deletes its key."""
VALID_UNTIL = "__held_until"
"""The time at which a version becomes invalid (microseconds); null: it is still valid."""
ROW_NUMBER = "__row"


class BroadcastJoin(ClocklessOperator, UndelayedOperator):
    """The operator of a `broadcast`."""

    def __init__(
        self, operation: nodes.Join, matching: BroadcastMatch, context: KeyedContext
    ) -> None:
        self._operation = operation
        self._matching = matching
        self._context = context
        numbered = _needs_numbers(matching, context.is_ordered)
        self._left = JoinSideColumns(operation, LEFT, ordered=numbered)
        self._right = JoinSideColumns(operation, RIGHT, ordered=numbered)
        self._pairs = JoinOutput(operation, context.stream, ordered=context.is_ordered)
        self._key_columns = name_replacement_key(matching)
        self._key_exprs = [
            to_expr(each.value).alias(name)
            for each, name in zip(matching.key or (), self._key_columns, strict=True)
        ]
        self._types = get_state_columns(operation, matching, ordered=context.is_ordered)[
            RULES_STATE
        ]
        # By arrival all subtasks have equal rows; with event time, a slower subtask has more.
        spread = Redistribution.UNION if matching.uses_event_time else Redistribution.BROADCAST
        self._rules_state = context.state.open_entries(RULES_STATE, spread)
        self._waiting_state: Entries | None = None
        """The buffered left rows; None: rows are joined as they arrive."""
        if matching.uses_event_time:
            self._waiting_state = context.state.open_entries(WAITING_STATE, Redistribution.LIST)
        self._rules = self._rules_state.rows
        if self._rules is not None and matching.uses_event_time:
            self._rules = self._rules.unique(maintain_order=True)
        waiting = None if self._waiting_state is None else self._waiting_state.rows
        self._waiting = [] if waiting is None else [waiting]
        self._valid: pl.DataFrame | None = None
        """With event time, the right rows with their end of validity; None: there are new ones."""
        self._next_end_us: int | None = None
        """The first time at which one of them becomes invalid; None: all stay valid."""

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer rows of the left input, or join them with the rows that have arrived."""
        if not self._matching.uses_event_time:
            yield from self._emit_matches(
                self._left.project_input(frame), self._mark_valid(self._rules)
            )
            return
        frame = yield from self._context.drop_late_rows(frame, self._operation.late_to[LEFT])
        if frame.height:
            self._waiting.append(self._left.project_input(frame))

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Add rows of the small input, which replace those of their keys."""
        import polars as pl

        rows = self._right.project_input(frame)
        if self._key_exprs:
            rows = rows.hstack(frame.select(*self._key_exprs))
        if self._matching.uses_event_time:
            part = frame[ORDER].struct.field("part").alias(PART_NUMBER)
            self._rules = _append(self._rules, rows.with_columns(part).select(*self._types))
            self._valid = None
        else:
            is_delete = frame[DELETE] if DELETE in frame.columns else pl.lit(False)
            self._rules = self._update_rules(rows.with_columns(is_delete.alias(IS_DELETE)))
        return iter(())

    def _update_rules(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the valid rows after these have been added."""
        import polars as pl

        before = self._rules
        if before is not None:
            before = before.with_columns(pl.lit(False).alias(IS_DELETE)).select(rows.columns)
        rows = _append(before, rows)
        if self._matching.key is not None:
            by = self._key_columns
            rows = rows.unique(by, keep="last", maintain_order=True) if by else rows.tail(1)
        return rows.filter(~pl.col(IS_DELETE)).select(*self._types)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Join the left rows that the watermark has passed with versions valid at their time."""
        import polars as pl

        state = self._context.state
        state.clock_us = max(state.clock_us, watermark_us)
        if not self._matching.uses_event_time:
            return
        if any((rows[TIME_COLUMNS[LEFT]] < state.clock_us).any() for rows in self._waiting):
            whole = pl.concat(self._waiting)
            is_due = pl.col(TIME_COLUMNS[LEFT]) < state.clock_us
            due = whole.filter(is_due).sort(TIME_COLUMNS[LEFT], NUMBER_COLUMNS[LEFT])
            rest = whole.filter(~is_due)
            self._waiting = [rest] if rest.height else []
            yield from self._emit_matches(due, self._get_versions())
        self._drop_expired(state.clock_us)

    def _drop_expired(self, clock_us: int) -> None:
        """Forget the right rows that are no longer valid."""
        rules = self._get_versions()
        if rules is None or self._next_end_us is None or self._next_end_us > clock_us:
            return
        holds = rules[VALID_UNTIL].is_null() | (rules[VALID_UNTIL] > clock_us)
        rules = rules.filter(holds)
        self._set_versions(rules)
        self._rules = rules.drop(VALID_UNTIL)

    def _set_versions(self, rules: pl.DataFrame) -> None:
        over = rules[VALID_UNTIL].min()
        self._valid, self._next_end_us = rules, None if over is None else int(over)  # type: ignore[arg-type]

    def flush_to_state(self) -> None:
        """Write buffered and valid rows to the state."""
        import polars as pl

        if self._waiting_state is not None:
            self._waiting_state.rows = pl.concat(self._waiting) if self._waiting else None
        self._rules_state.rows = self._rules

    @property
    def pending_rows(self) -> int:
        """The number of buffered rows."""
        return sum(frame.height for frame in self._waiting)

    def _mark_valid(self, rules: pl.DataFrame | None) -> pl.DataFrame | None:
        import polars as pl

        return (
            None if rules is None else rules.with_columns(pl.lit(None, pl.Int64).alias(VALID_UNTIL))
        )

    def _get_versions(self) -> pl.DataFrame | None:
        """Return the right rows, each with the end of its validity."""
        if self._valid is None and self._rules is not None:
            self._set_versions(compute_validity(self._rules, self._matching))
        return self._valid

    def _emit_matches(self, rows: pl.DataFrame, rules: pl.DataFrame | None) -> Iterator[Output]:
        """Join left rows with valid ones, and emit the result in bounded batches."""
        import polars as pl

        there = (
            rules
            if rules is not None
            else pl.DataFrame(schema={**self._types, VALID_UNTIL: pl.Int64})
        )
        there = there.drop(PART_NUMBER, *self._key_columns, strict=False)
        at_once = MAX_OUTPUT_ROWS if self._left.key else max(1, MAX_PAIRS // max(1, there.height))
        for start in range(0, rows.height, at_once):
            yield from self._pairs.emit(self._join_rows(rows.slice(start, at_once), there))

    def _join_rows(self, rows: pl.DataFrame, rules: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        left = rows.with_row_index(ROW_NUMBER)
        if self._left.key:
            pairs = left.join(rules, on=self._left.key, how="inner", maintain_order="left_right")
        else:
            pairs = left.join(rules, how="cross")
        if self._matching.uses_event_time:
            early, late = pl.col(TIME_COLUMNS[RIGHT]), pl.col(VALID_UNTIL)
            at = pl.col(TIME_COLUMNS[LEFT])
            pairs = pairs.filter((early <= at) & (late.is_null() | (at < late)))
        pairs = self._pairs.filter_pairs(pairs)
        match self._operation.type:
            case "inner":
                return self._add_time(pairs)
            case "left":
                alone = left.join(pairs.select(ROW_NUMBER), on=ROW_NUMBER, how="anti")
                both = pl.concat([pairs, alone], how="diagonal").sort(
                    ROW_NUMBER, maintain_order=True
                )
                return self._add_time(both)
        how: Literal["semi", "anti"] = "semi" if self._operation.type == "semi" else "anti"
        return self._add_time(
            left.join(pairs.select(ROW_NUMBER), on=ROW_NUMBER, how=how, maintain_order="left")
        )

    def _add_time(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with the event time of the left one."""
        import polars as pl

        if not self._operation.has_event_time:
            return rows
        return rows.with_columns(
            pl.col(TIME_COLUMNS[LEFT]).cast(to_polars(TIMESTAMP)).alias(EVENT_TIME)
        )


def get_state_columns(
    operation: nodes.Join, matching: BroadcastMatch, *, ordered: bool
) -> dict[str, Mapping[str, pl.DataType]]:
    """Return the column types of the state of both inputs, by state name."""
    import polars as pl

    numbered = _needs_numbers(matching, ordered)
    left, right = (JoinSideColumns(operation, which, ordered=numbered) for which in (LEFT, RIGHT))
    key = [to_polars(each.value.type) for each in matching.key or ()]
    of = dict(zip(name_replacement_key(matching), key, strict=True))
    waiting = {WAITING_STATE: left.types} if matching.uses_event_time else {}
    part = {PART_NUMBER: pl.Int64()} if matching.uses_event_time else {}
    return {**waiting, RULES_STATE: {**right.types, **of, **part}}


def _append(before: pl.DataFrame | None, rows: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return rows if before is None else pl.concat([before, rows])


def _needs_numbers(matching: BroadcastMatch, ordered: bool) -> bool:
    """Whether rows need their number: of versions of the same time, the last is valid."""
    return ordered or matching.uses_event_time


def name_replacement_key(matching: BroadcastMatch) -> list[str]:
    """Return the names of the key columns by which one right row replaces another."""
    return [f"__of{at}" for at in range(len(matching.key or ()))]


def compute_validity(rules: pl.DataFrame, matching: BroadcastMatch) -> pl.DataFrame:
    """Sort the right rows by time, and add the end of validity of each."""
    import polars as pl

    rules = rules.sort(TIME_COLUMNS[RIGHT], NUMBER_COLUMNS[RIGHT], PART_NUMBER)
    until = pl.lit(None, pl.Int64)
    if matching.key is not None:
        following = pl.col(TIME_COLUMNS[RIGHT]).shift(-1)
        until = following.over(by) if (by := name_replacement_key(matching)) else following
    if matching.ttl_us is not None:
        until = pl.min_horizontal(until, pl.col(TIME_COLUMNS[RIGHT]) + matching.ttl_us + 1)
    return rules.with_columns(until.alias(VALID_UNTIL))
