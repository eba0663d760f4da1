"""`match` over JSON lines: `a b+ c` within a minute, against a plain Python loop with a dict.

The keys are 100,000, each with an event about every ten seconds. In `selective`, one event of 100
is an `a`; in `unselective`, a third of them. JSON in, JSON out. The figure is the CPU seconds of
the whole process per million rows, the least of the rounds; the ratio is the loop's time over ours.
With `frames`, only the operator runs, over finished frames, and the loop over finished tuples.
`python -m benchmarks.match [selective|unselective] [MILLIONS] [ROUNDS] [frames]`
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from benchmarks.timing import compile_all
from benchmarks.works import cpu_s, run
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
LOOP = """
import sys

import orjson

runs = {}
with open(sys.argv[1], "rb", 1 << 20) as lines, open(sys.argv[2], "wb", 1 << 20) as out:
    for line in lines:
        row = orjson.loads(line)
        card, kind, at = row["card"], row["kind"], row["ts"]
        run = runs.get(card)
        if run is not None:
            if at - run[0] >= 60_000:
                del runs[card]
            elif kind == "b":
                run[1] += 1
            else:
                del runs[card]
                if kind == "c" and run[1]:
                    made = {"card": card, "match_start": run[0], "match_end": at, "n": run[1],
                            "amount": row["amount"]}
                    out.write(orjson.dumps(made, option=orjson.OPT_APPEND_NEWLINE))
        if kind == "a":
            runs[card] = [at, 0]
"""


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
            (root / "in.jsonl").write_bytes(b"".join(_write_events(rows, share)))
            (root / "loop.py").write_text(LOOP)
            taken = [_round(root) for _ in range(int(rounds))]
    ours, loop = (min(each) for each in zip(*taken, strict=True))
    print(f"{share} {of} {ours / rows * 1e6:.2f} CPU s per 1 M rows of {KEYS:,} keys")
    ratios = ", ".join(f"{theirs / mine:.2f}" for mine, theirs in taken)
    print(f"  {loop / ours:.2f} times the speed of a plain loop ({ratios})", file=sys.stderr)


def _make_events(rows: int, share: str) -> Iterator[tuple[int, str, float, int]]:
    """Yield events in the order of their times."""
    chance, of_a = random.Random(42), SHARES[share]
    for row in range(rows):
        drawn = chance.random()
        kind = "a" if drawn < of_a else "b" if drawn < (1 + of_a) / 2 else "c"
        yield int(chance.random() * KEYS), kind, drawn * 1000, BASE_MS + row // 10


def _write_events(rows: int, share: str) -> Iterator[bytes]:
    for card, kind, amount, at in _make_events(rows, share):
        yield b'{"card":%d,"kind":"%s","amount":%.2f,"ts":%d}\n' % (
            *(card, kind.encode(), amount, at),
        )


def _round(root: Path) -> tuple[float, float]:
    """Return our CPU seconds and those of the loop, one after the other."""
    shutil.rmtree(root / "out", ignore_errors=True)
    loop = [str(root / name) for name in ("loop.py", "in.jsonl", "loop.jsonl")]
    return cpu_s([sys.executable, *run(root)]), cpu_s([sys.executable, *loop])


def _round_of_frames(root: Path, rows: int, share: str) -> tuple[float, float]:
    """Return the CPU seconds of the operator and of the loop, over values in memory."""
    events = list(_make_events(rows, share))
    frames = [*_build_frames(events)]
    part = plan_of(root, PIPELINE).part("found")
    assert isinstance(part, nodes.Step)
    match = next(each for each in part.operations if isinstance(each, nodes.Match))
    operator = MatchOperator(match, place(), "found", None)
    before = time.process_time()
    found = 0
    for frame in frames:
        list(operator.process(frame))
        last_us = int(frame["ts"].cast(pl.Int64)[-1])
        found += sum(out.height for _, out in operator.advance(last_us))
    found += sum(out.height for _, out in operator.advance(MAX_WATERMARK_US))
    ours = time.process_time() - before
    before = time.process_time()
    assert _count_matches(events) == found
    return ours, time.process_time() - before


def _build_frames(events: list[tuple[int, str, float, int]]) -> Iterator[pl.DataFrame]:
    schema = {"card": pl.Int64(), "kind": pl.String(), "amount": pl.Float64(), "ts": pl.Int64()}
    at = pl.col("ts").cast(pl.Datetime("ms", "UTC")).cast(pl.Datetime("us", "UTC"))
    for start in range(0, len(events), BATCH):
        frame = pl.DataFrame(events[start : start + BATCH], schema=schema, orient="row")
        frame = frame.with_columns(at.alias("ts"), at.alias(EVENT_TIME))
        yield add_row_order(frame, pl.int_range(start, start + frame.height))


def _count_matches(events: list[tuple[int, str, float, int]]) -> int:
    found, runs = 0, dict[int, list[int]]()
    for card, kind, _, at in events:
        run = runs.get(card)
        if run is not None:
            if at - run[0] >= 60_000:
                del runs[card]
            elif kind == "b":
                run[1] += 1
            else:
                del runs[card]
                found += kind == "c" and run[1] > 0
        if kind == "a":
            runs[card] = [at, 0]
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
