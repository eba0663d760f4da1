"""`match` with rules: 1 to 1,000 patterns `a b+ c` within a minute, over finished frames.

The keys and events are those of `benchmarks.match`, of which one in 100 is an `a`; each rule also
wants a least amount for it. The figure is the rows per second of CPU of the operator.
`python -m benchmarks.match_rules [RULES...]`
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from benchmarks.match import build_frames, make_events
from headrace.cli.garbage_collection import suspend_garbage_collection
from headrace.core.operators.matches.rule_operator import RuleMatchOperator
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import RuleMatch
from headrace.core.types.elements import EVENT_TIME
from headrace.core.types.row_order import add_row_order
from tests.support.plans import plan_of
from tests.support.runtime.changelogs import place

BATCH = 250_000
"""The rows of a batch: about those of a block of a file."""
ROUND = 50_000_000
"""At most the rows of a round times the rules, but for the first batch."""
PIPELINE = """
name: match
sources:
  events:
    files: {path: in.jsonl}
    schema: {card: bigint, kind: string, amount: double, ts: timestamp}
    event_time: ts
  rules:
    files: {path: rules.jsonl}
    schema: {rule: string, pattern: string, define: string, within: string, ts: timestamp}
    event_time: ts
steps:
  found: {from: events, key: card, match: {rules: rules}}
sinks:
  out: {from: found, console: {}}
"""


def main(*counts: str) -> None:
    """Print a line for each number of rules."""
    for count in map(int, counts or ("1", "10", "100", "1000")):
        rows = min(max(ROUND // count, BATCH), 1_000_000)
        print(f"{count:,} rules: {rows / _measure(count, rows):,.0f} rows/s of CPU")


def _measure(count: int, rows: int) -> float:
    """Return the CPU seconds of the operator."""
    with suspend_garbage_collection():
        frames = [*build_frames([*make_events(rows, "selective")], BATCH)]
    with tempfile.TemporaryDirectory() as folder:
        part = plan_of(Path(folder), PIPELINE).part("found")
    assert isinstance(part, nodes.Step)
    join = next(each for each in part.operations if isinstance(each, nodes.Join))
    assert isinstance(join.matching, RuleMatch)
    operator = RuleMatchOperator(join, join.matching, place(), "found", None)
    list(operator.process_right(_build_rules(count, frames[0])))
    list(operator.advance(int(frames[0][EVENT_TIME].cast(pl.Int64)[0])))
    before = time.process_time()
    for frame in frames:
        list(operator.process(frame))
        list(operator.advance(int(frame[EVENT_TIME].cast(pl.Int64)[-1])))
    return time.process_time() - before


def _build_rules(count: int, frame: pl.DataFrame) -> pl.DataFrame:
    """Return rules from before the first row of a frame."""
    least = (f"kind = 'a' and amount >= {number * 10 / count}" for number in range(count))
    defined = [f'{{"a": "{each}", "b": "kind = \'b\'", "c": "kind = \'c\'"}}' for each in least]
    rules = pl.DataFrame({"rule": [f"r{number}" for number in range(count)], "define": defined})
    at = pl.lit(frame[EVENT_TIME][0]).dt.offset_by("-1s")
    rules = rules.with_columns(
        pl.lit("a b+ c").alias("pattern"), pl.lit("1m").alias("within"), ts=at, **{EVENT_TIME: at}
    )
    return add_row_order(rules, pl.int_range(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
