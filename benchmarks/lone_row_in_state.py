"""Extra cost of a single row in a step with a million keys compared with a thousand keys: ms.

Single rows go to operators that look up their key in state, or write it; for joins, from both sides
in turn. Each row takes its CPU time, of all threads; the median counts. The figure is that of the
worst kind. On stderr, by kind: the medians; and the longest piece of work on the event loop, and of
the work that was announced as long and done in a thread.
`python -m benchmarks.lone_row_in_state [ROWS] [KEYS]`
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from time import process_time
from typing import TypeAlias

import polars as pl

from headrace.core.aggregates import type_aggregate_text
from headrace.core.api.state_backend import StateOwnership
from headrace.core.expressions.typed import ColumnReference, Span
from headrace.core.operators.joins.factory import build_join
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.keyed_factory import build_keyed_operator
from headrace.core.operators.operator import OFFLOAD, Operator, Output
from headrace.core.plan.nodes import Aggregate, AggregatedColumn, ComputedColumn, Join, JoinSide
from headrace.core.plan.nodes.matching import IntervalMatch
from headrace.core.plan.nodes.windows import Count, Session, Trigger, Tumble, Window
from headrace.core.types.data_types import BIGINT, Field, Schema
from headrace.core.types.elements import EVENT_TIME
from headrace.state.memory.backend import MemoryBackend

Takes: TypeAlias = Callable[[pl.DataFrame], Iterator[Output]]
"""An input of an operator."""


def _column(name: str) -> ColumnReference:
    return ColumnReference(BIGINT, True, Span(0, 0), name)


SCHEMA = Schema((Field("k", BIGINT), Field("v", BIGINT)))
KEY = (ComputedColumn("k", _column("k")),)
THOUSAND, TOGETHER = 1000, 50_000
LONG_US = 10**10
KINDS: dict[str, Window | IntervalMatch | None] = {
    "tumbling, late rows": Window(Tumble(500), lateness_us=LONG_US),
    "trigger after 2 rows": Window(Tumble(LONG_US), trigger=Trigger(count=2)),
    "the same, cleared": Window(Tumble(LONG_US), trigger=Trigger(count=2), keeps_rows=False),
    "sessions": Window(Session(5000)),
    "sessions, late rows": Window(Session(10), lateness_us=LONG_US),
    "sessions, after 2 rows": Window(Session(LONG_US), trigger=Trigger(count=2)),
    "every 2 rows": Window(Count(2, 2)),
    "running": None,
    "join, within": IntervalMatch(-LONG_US, LONG_US),
    "join, for ever": IntervalMatch(),
}


@dataclass(slots=True)
class Took:
    """CPU time, in milliseconds."""

    rows: list[float] = field(default_factory=list)
    on_loop: float = 0.0
    in_thread: float = 0.0


def main(rows: str = "500", keys: str = "1000000") -> None:
    """Print the figure."""
    more = []
    for name, kind in KINDS.items():
        few, many = _in_turn(kind, (THOUSAND, int(keys)), int(rows))
        least, most = median(few.rows), median(many.rows)
        more.append(most - least)
        print(
            f"{least:.2f} ms, {most:.2f}; longest {few.on_loop:.1f}, {many.on_loop:.1f} on the"
            f" loop, {few.in_thread:.0f}, {many.in_thread:.0f} in a thread  {name}",
            file=sys.stderr,
        )
    print(f"lone_row_in_state {max(more):.2f} ms")


def _in_turn(
    kind: Window | IntervalMatch | None, kept: tuple[int, int], count: int
) -> tuple[Took, Took]:
    """Send rows to two operators with few and many keys in turn; a busy machine slows both."""
    took, operators = (Took(), Took()), [_filled(kind, keys) for keys in kept]
    for number in range(count):
        for keys, inputs, each in zip(kept, operators, took, strict=True):
            key = number * 997 % keys
            takes = inputs[number % len(inputs)]
            each.rows.append(_answered(takes(_rows(key, key + 1)), each))
    return took


def _filled(kind: Window | IntervalMatch | None, keys: int) -> list[Takes]:
    """Return the inputs of an operator; each has received a row of each key."""
    operator, inputs = _joining(kind) if isinstance(kind, IntervalMatch) else _aggregating(kind)
    for at in range(0, keys, TOGETHER):
        for takes in inputs:
            for _ in takes(_rows(at, min(at + TOGETHER, keys))):
                pass
    # To a join rows of the same times come later, and are not late.
    for _ in operator.advance(0 if isinstance(kind, IntervalMatch) else 2000):
        pass
    return inputs


def _answered(outputs: Iterator[Output], took: Took) -> float:
    """Return the time that an operator works on a row, measured for each piece of work."""
    total, is_long = 0.0, False
    while True:
        start = process_time()
        output = next(outputs, None)
        piece = (process_time() - start) * 1000
        total += piece
        if is_long:
            took.in_thread = max(took.in_thread, piece)
        else:
            took.on_loop = max(took.on_loop, piece)
        if output is None:
            return total
        is_long = is_long or output[0] == OFFLOAD


def _aggregating(window: Window | None) -> tuple[Operator, list[Takes]]:
    """Build `count(*), sum(v)` by `k`."""
    keys = Schema((Field("k", BIGINT),))
    columns = tuple(
        AggregatedColumn(name, type_aggregate_text(text, SCHEMA, keys), text)
        for name, text in (("n", "count(*)"), ("total", "sum(v)"))
    )
    operator = build_keyed_operator(Aggregate(KEY, window, columns), _place())
    return operator, [operator.process]


def _joining(matching: IntervalMatch) -> tuple[Operator, list[Takes]]:
    """Build a join by `k` of the columns of both rows."""
    left, right = (
        JoinSide(
            name,
            KEY,
            tuple(ComputedColumn(name + column, _column(column)) for column in SCHEMA.names),
        )
        for name in "lr"
    )
    operation = Join(left, right, "inner", matching, None, "", (None, None))
    operator = build_join(operation, _place())
    return operator, [operator.process, operator.process_right]


def _place() -> KeyedContext:
    state = MemoryBackend().open_state(StateOwnership("step", 0, range(128), 128))
    return KeyedContext("step", state, lambda: 0, is_ordered=False, read_streams=frozenset())


def _rows(first: int, end: int) -> pl.DataFrame:
    """Return a row of each of these keys, within a millisecond."""
    key = pl.int_range(first, end, dtype=pl.Int64)
    at = (key % 1000).cast(pl.Datetime("us", "UTC"))
    return pl.select(key.alias("k"), pl.lit(1, dtype=pl.Int64).alias("v"), at.alias(EVENT_TIME))


if __name__ == "__main__":
    main(*sys.argv[1:])
