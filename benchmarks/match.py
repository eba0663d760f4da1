"""`match` over JSON lines: `a b+ c` within a minute, against a plain Python loop with a dict.

The keys are 100,000, each with an event about every ten seconds. In `selective`, one event of 100
is an `a`; in `unselective`, a third of them. JSON in, JSON out. The figures are seconds of the
whole process per million rows, of CPU and by the clock, the least of the rounds; the ratio is the
loop's time over ours.
With `frames`, only the operator runs, over finished frames, and the loop over finished dicts.
`python -m benchmarks.match [selective|unselective] [MILLIONS] [ROUNDS] [frames]`
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import polars as pl

from benchmarks import match_loop
from benchmarks.timing import Took, compile_all, measure
from benchmarks.works import run
from headrace.cli.garbage_collection import suspend_garbage_collection
from headrace.core.operators.matches.match_operator import MatchOperator
from headrace.core.plan import nodes
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US
from headrace.core.types.row_order import add_row_order
from tests.support.plans import plan_of
from tests.support.runtime.changelogs import place

BASE_MS = 1_700_000_000_000
KEYS = 100_000
SHARES = {"selective": 0.01, "unselective": 0.33}
BATCH = 50_000
PIPELINE = """
name: match
sources:
  events:
    files: {path: in.jsonl}
    schema: {card: bigint, kind: string, amount: double, ts: timestamp}
    json: {epoch: ms}
    event_time: ts
    watermark: {delay: 2s}
steps:
  found:
    from: events
    key: card
    match:
      pattern: a b+ c
      define: {a: kind = 'a', b: kind = 'b', c: kind = 'c'}
      within: 1m
      emit: {n: count(b), amount: c.amount}
sinks:
  out: {from: found, files: {path: out, mode: overwrite}}
"""
Event: TypeAlias = dict[str, Any]


def main(share: str = "selective", millions: str = "5", rounds: str = "3", of: str = "") -> None:
    """Print the figure, and the ratios on stderr."""
    compile_all()
    rows = int(float(millions) * 1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "p.yaml").write_text(PIPELINE)
        if of == "frames":
            taken = [_round_of_frames(root, rows, share) for _ in range(int(rounds))]
        else:
            with (root / "in.jsonl").open("wb", 1 << 20) as file:
                file.writelines(_write_events(rows, share))
            taken = [_round(root) for _ in range(int(rounds))]
    for name in ("cpu_s", "wall_s"):
        pairs = [(getattr(mine, name), getattr(theirs, name)) for mine, theirs in taken]
        ours, loop = (min(each) for each in zip(*pairs, strict=True))
        print(f"{share} {of} {name} {ours / rows * 1e6:.2f} per 1 M rows of {KEYS:,} keys")
        ratios = ", ".join(f"{theirs / mine:.2f}" for mine, theirs in pairs)
        print(f"  {loop / ours:.2f} times the speed of a plain loop ({ratios})", file=sys.stderr)


def make_events(rows: int, share: str) -> Iterator[Event]:
    """Yield events in the order of their times."""
    chance, of_a = random.Random(42), SHARES[share]
    for row in range(rows):
        drawn = chance.random()
        kind = "a" if drawn < of_a else "b" if drawn < (1 + of_a) / 2 else "c"
        card, amount = int(chance.random() * KEYS), round(drawn * 1000, 2)
        yield {"card": card, "kind": kind, "amount": amount, "ts": BASE_MS + row // 10}


def _write_events(rows: int, share: str) -> Iterator[bytes]:
    return (
        orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE) for each in make_events(rows, share)
    )


def _round(root: Path) -> tuple[Took, Took]:
    """Return our times and those of the loop, one after the other."""
    shutil.rmtree(root / "out", ignore_errors=True)
    files = (str(root / name) for name in ("in.jsonl", "loop.jsonl"))
    loop = [sys.executable, str(Path(match_loop.__file__)), *files]
    return measure([sys.executable, *run(root)]), measure(loop)


def _round_of_frames(root: Path, rows: int, share: str) -> tuple[Took, Took]:
    """Return the times of the operator and of the loop, over values in memory."""
    with suspend_garbage_collection():
        events = list(make_events(rows, share))
        frames = [*build_frames(events)]
    part = plan_of(root, PIPELINE).part("found")
    assert isinstance(part, nodes.Step)
    match = next(each for each in part.operations if isinstance(each, nodes.Match))
    operator = MatchOperator(match, place(), "found", None)
    found = 0

    def match_frames() -> None:
        nonlocal found
        for frame in frames:
            list(operator.process(frame))
            last_us = int(frame["ts"].cast(pl.Int64)[-1])
            found += sum(out.height for _, out in operator.advance(last_us))
        found += sum(out.height for _, out in operator.advance(MAX_WATERMARK_US))

    ours = _time(match_frames)
    expected = list[Event]()
    loop = _time(lambda: expected.extend(match_loop.find_matches(events)))
    assert len(expected) == found
    return ours, loop


def _time(work: Callable[[], object]) -> Took:
    began, before = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - began, time.process_time() - before)


def build_frames(events: list[Event], size: int = BATCH) -> Iterator[pl.DataFrame]:
    """Yield events as rows, in frames of this size."""
    schema = {"card": pl.Int64(), "kind": pl.String(), "amount": pl.Float64(), "ts": pl.Int64()}
    at = pl.col("ts").cast(pl.Datetime("ms", "UTC")).cast(pl.Datetime("us", "UTC"))
    for start in range(0, len(events), size):
        frame = pl.DataFrame(events[start : start + size], schema=schema)
        frame = frame.with_columns(at.alias("ts"), at.alias(EVENT_TIME))
        yield add_row_order(frame, pl.int_range(start, start + frame.height))


if __name__ == "__main__":
    main(*sys.argv[1:])
