"""`process` over JSON lines, with one value per key, against a plain Python loop with a dict.

Each row adds to the total of its card, and the new total is emitted: JSON in, JSON out. `on_row` is
called for each row, `on_rows` for batches. The figure is the CPU seconds of the whole process per
million rows, the least of the rounds. The ratio is the loop's time over ours: 1 is as fast, 3 is
three times as fast.
`python -m benchmarks.process [on_row|on_rows] [CARDS] [ROUNDS]`
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.timing import compile_all
from benchmarks.works import cpu_s, run

MILLIONS = 4
BASE_MS = 1_700_000_000_000
PIPELINE = """
name: process
sources:
  payments:
    files: {{path: in.jsonl}}
    schema: {{card: bigint, amount: double, ts: timestamp}}
    json: {{epoch: ms}}
    event_time: ts
    watermark: {{delay: 2s}}
steps:
  totals:
    from: payments
    key: card
    process: {{python: totals.py:{kind}, returns: {{card: bigint, total: double}}}}
sinks:
  out: {{from: totals, files: {{path: out, mode: overwrite}}}}
"""
TOTALS = """
import polars as pl

from headrace import Process, Row, value


class Payment(Row):
    card: int
    amount: float


class on_row(Process):
    total = value("double", default=0.0)

    def on_row(self, row: Payment, state, out):
        total = state.total + row.amount
        state.total = total
        out(row.card, total)


class on_rows(Process):
    total = value("double", default=0.0)

    def on_rows(self, rows, state, out):
        before = state.total.get()
        total = rows.select(pl.col("amount").cum_sum().over("card"))["amount"] + before
        state.total.set(total)
        out(rows.select("card", total=total))
"""
LOOP = """
import sys

import orjson

totals = {}
with open(sys.argv[1], "rb", 1 << 20) as lines, open(sys.argv[2], "wb", 1 << 20) as out:
    for line in lines:
        row = orjson.loads(line)
        card = row["card"]
        total = totals.get(card, 0.0) + row["amount"]
        totals[card] = total
        made = {"card": card, "total": total}
        out.write(orjson.dumps(made, option=orjson.OPT_APPEND_NEWLINE))
"""


def main(kind: str = "on_row", cards: str = "100000", rounds: str = "3") -> None:
    """Print the figure, and the ratios on stderr."""
    compile_all()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "in.jsonl").write_bytes(payments(MILLIONS * 1_000_000, int(cards)))
        (root / "p.yaml").write_text(PIPELINE.format(kind=kind))
        (root / "totals.py").write_text(TOTALS)
        (root / "loop.py").write_text(LOOP)
        taken = [_round(root) for _ in range(int(rounds))]
    ours, loop = (min(each) for each in zip(*taken, strict=True))
    print(f"{kind} {ours / MILLIONS:.2f} CPU s per 1 M rows of {cards} cards")
    ratios = ", ".join(f"{theirs / mine:.2f}" for mine, theirs in taken)
    print(f"  {loop / ours:.2f} times the speed of a plain loop ({ratios})", file=sys.stderr)


def payments(rows: int, cards: int) -> bytes:
    """Generate that many lines, in event-time order."""
    random.seed(42)
    return b"".join(
        b'{"card":%d,"amount":%.2f,"ts":%d}\n'
        % (int(random.random() * cards), random.random() * 1000, BASE_MS + row // 10)
        for row in range(rows)
    )


def _round(root: Path) -> tuple[float, float]:
    """Return our CPU seconds and those of the loop, one after the other."""
    shutil.rmtree(root / "out", ignore_errors=True)
    loop = [str(root / name) for name in ("loop.py", "in.jsonl", "loop.jsonl")]
    return cpu_s([sys.executable, *run(root)]), cpu_s([sys.executable, *loop])


if __name__ == "__main__":
    main(*sys.argv[1:])
