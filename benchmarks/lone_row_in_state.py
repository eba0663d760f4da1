"""What a lone row costs more where a step keeps a million keys than where it keeps a thousand: ms.

The rows come one by one to operators that look for their key in what they keep, or write it there;
each row's CPU time, of all threads, the median of so many. The figure is that of the worst kind. On
stderr, by kind: the medians; and of the pieces of work in which an operator answers the rows, the
longest of those done on the loop, and of those that are said to take long and done in a thread.
`python -m benchmarks.lone_row_in_state [ROWS] [KEYS]`
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from statistics import median
from time import process_time

import polars as pl

from headrace.core.aggregates import type_aggregate_text
from headrace.core.elements import EVENT_TIME
from headrace.core.expressions.typed import Column, Span
from headrace.core.operators.keyed import keyed_operator
from headrace.core.operators.operator import ASIDE, Operator
from headrace.core.operators.place import Place
from headrace.core.owner import Owner
from headrace.core.plan.nodes import Aggregate, Aggregated, Computed
from headrace.core.plan.windows import Count, Session, Trigger, Tumble, Window
from headrace.core.types import BIGINT, Field, Schema
from headrace.state.memory import MemoryBackend

THOUSAND, TOGETHER = 1000, 50_000
LONG_US = 10**10
KINDS: dict[str, Window | None] = {
    "tumbling, late rows": Window(Tumble(500), lateness_us=LONG_US),
    "trigger after 2 rows": Window(Tumble(LONG_US), trigger=Trigger(count=2)),
    "the same, cleared": Window(Tumble(LONG_US), trigger=Trigger(count=2), accumulate=False),
    "sessions": Window(Session(5000)),
    "sessions, late rows": Window(Session(10), lateness_us=LONG_US),
    "sessions, after 2 rows": Window(Session(LONG_US), trigger=Trigger(count=2)),
    "every 2 rows": Window(Count(2, 2)),
    "running": None,
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
    for kind, window in KINDS.items():
        few, many = _in_turn(window, (THOUSAND, int(keys)), int(rows))
        least, most = median(few.rows), median(many.rows)
        more.append(most - least)
        print(
            f"{least:.2f} ms, {most:.2f}; longest {few.on_loop:.1f}, {many.on_loop:.1f} on the"
            f" loop, {few.in_thread:.0f}, {many.in_thread:.0f} in a thread  {kind}",
            file=sys.stderr,
        )
    print(f"lone_row_in_state {max(more):.2f} ms")


def _in_turn(window: Window | None, kept: tuple[int, int], count: int) -> tuple[Took, Took]:
    """So many rows for each of two operators that keep so many keys; a busy machine slows both."""
    took, operators = (Took(), Took()), [_filled(window, keys) for keys in kept]
    for number in range(count):
        for keys, operator, each in zip(kept, operators, took, strict=True):
            key = number * 997 % keys
            each.rows.append(_answered(operator, _rows(key, key + 1), each))
    return took


def _filled(window: Window | None, keys: int) -> Operator:
    """One to which a row of each key has come."""
    operator = _operator(window)
    for at in range(0, keys, TOGETHER):
        for _ in operator.process(_rows(at, min(at + TOGETHER, keys))):
            pass
    for _ in operator.advance(2000):
        pass
    return operator


def _answered(operator: Operator, frame: pl.DataFrame, took: Took) -> float:
    """How long it is at work on a row, piece by piece as it is asked."""
    outputs, total, is_long = operator.process(frame), 0.0, False
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
        is_long = is_long or output[0] == ASIDE


def _operator(window: Window | None) -> Operator:
    """One of `count(*), sum(v)` by `k`."""
    schema = Schema((Field("k", BIGINT), Field("v", BIGINT)))
    keys = Schema((Field("k", BIGINT),))
    columns = tuple(
        Aggregated(name, type_aggregate_text(text, schema, keys), text)
        for name, text in (("n", "count(*)"), ("total", "sum(v)"))
    )
    key = (Computed("k", Column(BIGINT, True, Span(0, 0), "k")),)
    state = MemoryBackend().open(Owner("step", 0, range(128), 128))
    place = Place("step", state, lambda: 0, ordered=False, read=frozenset())
    return keyed_operator(Aggregate(key, window, columns), place)


def _rows(first: int, end: int) -> pl.DataFrame:
    """A row of each of these keys, within a millisecond."""
    key = pl.int_range(first, end, dtype=pl.Int64)
    at = (key % 1000).cast(pl.Datetime("us", "UTC"))
    return pl.select(key.alias("k"), pl.lit(1, dtype=pl.Int64).alias("v"), at.alias(EVENT_TIME))


if __name__ == "__main__":
    main(*sys.argv[1:])
