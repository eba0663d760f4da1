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

from headrace.core.elements import DELETE, EVENT_TIME, ORDER
from headrace.core.expressions.typed import to_expr
from headrace.core.operators.joins.pairs import Pairs
from headrace.core.operators.joins.sides import LEFT, NUMBERS, RIGHT, TIMES, Sided
from headrace.core.operators.operator import MOST_ROWS, Clockless, Output, Timely
from headrace.core.operators.place import Place
from headrace.core.plan import nodes
from headrace.core.plan.matching import Everywhere
from headrace.core.state import Spread
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

WAITING, RULES = "waiting", "rules"
MOST_PAIRS = 500_000
"""The approximate number of pairs considered at once."""

PART = "__part"
"""The part number of a row made from another; time, number and part are its position."""
GONE = "__gone"
"""Whether a changelog row deletes its key."""
UNTIL = "__held_until"
"""The time at which a version becomes invalid (microseconds); null: it is still valid."""
ROW = "__row"


class EverywhereJoin(Clockless, Timely):
    """The operator of a `broadcast`."""

    def __init__(self, operation: nodes.Join, matching: Everywhere, place: Place) -> None:
        self._operation = operation
        self._matching = matching
        self._context = place
        numbered = _numbered(matching, place.ordered)
        self._left = Sided(operation, LEFT, ordered=numbered)
        self._right = Sided(operation, RIGHT, ordered=numbered)
        self._pairs = Pairs(operation, place.stream, ordered=place.ordered)
        self._key_columns = replaced(matching)
        self._key_exprs = [
            to_expr(each.value).alias(name)
            for each, name in zip(matching.key or (), self._key_columns, strict=True)
        ]
        self._types = columns_of(operation, matching, ordered=place.ordered)[RULES]
        # By arrival all subtasks have equal rows; with event time, a slower subtask has more.
        spread = Spread.UNION if matching.in_time else Spread.BROADCAST
        self._rules_state = place.state.entries(RULES, spread)
        self._waiting_state = place.state.entries(WAITING, Spread.LIST)
        self._rules = self._rules_state.rows
        if self._rules is not None and matching.in_time:
            self._rules = self._rules.unique(maintain_order=True)
        self._waiting = [] if self._waiting_state.rows is None else [self._waiting_state.rows]
        self._valid: pl.DataFrame | None = None
        """With event time, the right rows with their end of validity; None: there are new ones."""
        self._next_end_us: int | None = None
        """The first time at which one of them becomes invalid; None: all stay valid."""

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer rows of the left input, or join them with the rows that have arrived."""
        if not self._matching.in_time:
            yield from self._met(self._left.rows(frame), self._holding(self._rules))
            return
        frame = yield from self._context.in_time(frame, self._operation.late_to[LEFT])
        if frame.height:
            self._waiting.append(self._left.rows(frame))

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Add rows of the small input, which replace those of their keys."""
        import polars as pl

        rows = self._right.rows(frame)
        if self._key_exprs:
            rows = rows.hstack(frame.select(*self._key_exprs))
        if self._matching.in_time:
            part = frame[ORDER].struct.field("part").alias(PART)
            self._rules = _behind(self._rules, rows.with_columns(part).select(*self._types))
            self._valid = None
        else:
            gone = frame[DELETE] if DELETE in frame.columns else pl.lit(False)
            self._rules = self._latest(rows.with_columns(gone.alias(GONE)))
        return iter(())

    def _latest(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the valid rows after these have been added."""
        import polars as pl

        before = self._rules
        if before is not None:
            before = before.with_columns(pl.lit(False).alias(GONE)).select(rows.columns)
        rows = _behind(before, rows)
        if self._matching.key is not None:
            by = self._key_columns
            rows = rows.unique(by, keep="last", maintain_order=True) if by else rows.tail(1)
        return rows.filter(~pl.col(GONE)).select(*self._types)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Join the left rows that the watermark has passed with versions valid at their time."""
        import polars as pl

        state = self._context.state
        state.clock_us = max(state.clock_us, watermark_us)
        if not self._matching.in_time:
            return
        if any((rows[TIMES[LEFT]] < state.clock_us).any() for rows in self._waiting):
            whole = pl.concat(self._waiting)
            is_due = pl.col(TIMES[LEFT]) < state.clock_us
            due = whole.filter(is_due).sort(TIMES[LEFT], NUMBERS[LEFT])
            rest = whole.filter(~is_due)
            self._waiting = [rest] if rest.height else []
            yield from self._met(due, self._versions())
        self._forget(state.clock_us)

    def _forget(self, clock_us: int) -> None:
        """Forget the right rows that are no longer valid."""
        rules = self._versions()
        if rules is None or self._next_end_us is None or self._next_end_us > clock_us:
            return
        holds = rules[UNTIL].is_null() | (rules[UNTIL] > clock_us)
        rules = rules.filter(holds)
        self._hold(rules)
        self._rules = rules.drop(UNTIL)

    def _hold(self, rules: pl.DataFrame) -> None:
        over = rules[UNTIL].min()
        self._valid, self._next_end_us = rules, None if over is None else int(over)  # type: ignore[arg-type]

    def settle(self) -> None:
        """Write buffered and valid rows to the state."""
        import polars as pl

        self._waiting_state.rows = pl.concat(self._waiting) if self._waiting else None
        self._rules_state.rows = self._rules

    @property
    def held(self) -> int:
        """The number of buffered rows."""
        return sum(frame.height for frame in self._waiting)

    def _holding(self, rules: pl.DataFrame | None) -> pl.DataFrame | None:
        import polars as pl

        return None if rules is None else rules.with_columns(pl.lit(None, pl.Int64).alias(UNTIL))

    def _versions(self) -> pl.DataFrame | None:
        """Return the right rows, each with the end of its validity."""
        if self._valid is None and self._rules is not None:
            self._hold(held_until(self._rules, self._matching))
        return self._valid

    def _met(self, rows: pl.DataFrame, rules: pl.DataFrame | None) -> Iterator[Output]:
        """Join left rows with valid ones, and emit the result in bounded batches."""
        import polars as pl

        there = (
            rules if rules is not None else pl.DataFrame(schema={**self._types, UNTIL: pl.Int64})
        )
        there = there.drop(PART, *self._key_columns, strict=False)
        at_once = MOST_ROWS if self._left.key else max(1, MOST_PAIRS // max(1, there.height))
        for start in range(0, rows.height, at_once):
            yield from self._pairs.rows(self._joined(rows.slice(start, at_once), there))

    def _joined(self, rows: pl.DataFrame, rules: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        left = rows.with_row_index(ROW)
        if self._left.key:
            pairs = left.join(rules, on=self._left.key, how="inner", maintain_order="left_right")
        else:
            pairs = left.join(rules, how="cross")
        if self._matching.in_time:
            early, late = pl.col(TIMES[RIGHT]), pl.col(UNTIL)
            at = pl.col(TIMES[LEFT])
            pairs = pairs.filter((early <= at) & (late.is_null() | (at < late)))
        pairs = self._pairs.meant(pairs)
        match self._operation.type:
            case "inner":
                return self._timed(pairs)
            case "left":
                alone = left.join(pairs.select(ROW), on=ROW, how="anti")
                both = pl.concat([pairs, alone], how="diagonal").sort(ROW, maintain_order=True)
                return self._timed(both)
        how: Literal["semi", "anti"] = "semi" if self._operation.type == "semi" else "anti"
        return self._timed(left.join(pairs.select(ROW), on=ROW, how=how, maintain_order="left"))

    def _timed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with the event time of the left one."""
        import polars as pl

        if not self._operation.timed:
            return rows
        return rows.with_columns(pl.col(TIMES[LEFT]).cast(to_polars(TIMESTAMP)).alias(EVENT_TIME))


def columns_of(
    operation: nodes.Join, matching: Everywhere, *, ordered: bool
) -> dict[str, Mapping[str, pl.DataType]]:
    """Return the column types of the state of both inputs, by state name."""
    import polars as pl

    numbered = _numbered(matching, ordered)
    left, right = (Sided(operation, which, ordered=numbered) for which in (LEFT, RIGHT))
    key = [to_polars(each.value.type) for each in matching.key or ()]
    of = dict(zip(replaced(matching), key, strict=True))
    waiting = {WAITING: left.types} if matching.in_time else {}
    part = {PART: pl.Int64()} if matching.in_time else {}
    return {**waiting, RULES: {**right.types, **of, **part}}


def _behind(before: pl.DataFrame | None, rows: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return rows if before is None else pl.concat([before, rows])


def _numbered(matching: Everywhere, ordered: bool) -> bool:
    """Whether rows need their number: of versions of the same time, the last is valid."""
    return ordered or matching.in_time


def replaced(matching: Everywhere) -> list[str]:
    """Return the names of the key columns by which one right row replaces another."""
    return [f"__of{at}" for at in range(len(matching.key or ()))]


def held_until(rules: pl.DataFrame, matching: Everywhere) -> pl.DataFrame:
    """Sort the right rows by time, and add the end of validity of each."""
    import polars as pl

    rules = rules.sort(TIMES[RIGHT], NUMBERS[RIGHT], PART)
    until = pl.lit(None, pl.Int64)
    if matching.key is not None:
        following = pl.col(TIMES[RIGHT]).shift(-1)
        until = following.over(by) if (by := replaced(matching)) else following
    if matching.ttl_us is not None:
        until = pl.min_horizontal(until, pl.col(TIMES[RIGHT]) + matching.ttl_us + 1)
    return rules.with_columns(until.alias(UNTIL))
