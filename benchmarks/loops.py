"""Rows per second of CPU that go round in a loop once: 1 M rows, each raised by one ten times.

The rows are generated in memory beforehand. The figure is that of a body of one projection; on
stderr also that of a body of three steps, of which one has an exchange of its own, and of the same
rows through one projection without a loop. All figures are the best of the rounds.
`python -m benchmarks.loops [ROUNDS] [MILLIONS]`
"""

from __future__ import annotations

import sys

import polars as pl

from benchmarks.windowed import MILLION, PIPELINE, TOGETHER, ran

TURNS = 10
HEAD = f"""\
  tries:
    iterate: {{{{from: numbers, until: rounds = {TURNS}, rounds: true, feedback: once}}}}
"""
RAISE = "select: {{price: price + 1, auction: auction, rounds: rounds}}"
LOOP = PIPELINE.split("steps:")[0] + (
    "steps:\n  numbers: {{from: bids, select: [price, auction]}}\n"
    + HEAD
    + "{step}"
    + "  step: {{from: tries, select: [price, auction]}}\n"
    + "sinks:\n  out: {{from: step, memory: {{data: out}}}}\n"
)
BODIES = {
    "one step": f"  once: {{from: tries.loop, {RAISE}}}\n".replace("{{", "{").replace("}}", "}"),
    "three steps": (
        "  one: {from: tries.loop, where: price > 0}\n"
        "  two: {from: one, select: {price: price + 1, auction: auction, rounds: rounds}}\n"
        "  once: {from: two, where: auction >= 0, chain: false}\n"
    ),
}


def main(rounds: str = "3", millions: str = "1") -> None:
    """Print the figure."""
    count = int(millions) * MILLION
    rows = pl.DataFrame({"price": range(count)}).select(
        auction=pl.col("price") % 1000,
        bidder=pl.col("price") % 999,
        price=pl.col("price") + 1,
        ts=pl.lit(0).cast(pl.Datetime("us", "UTC")),
    )
    chunks = [rows.slice(at, TOGETHER) for at in range(0, count, TOGETHER)]
    best: dict[str, float] = {}
    for _ in range(int(rounds)):
        for name, body in BODIES.items():
            run = ran(body, chunks.__getitem__, len(chunks), pipeline=LOOP)
            assert run.rows == count, run.rows
            best[name] = max(best.get(name, 0), TURNS * count / run.cpu_s)
        plain = ran("select: [price, auction]", chunks.__getitem__, len(chunks))
        best["no loop"] = max(best.get("no loop", 0), count / plain.cpu_s)
    print(f"loops {best['one step'] / MILLION:.2f} M row-rounds per CPU second")
    for name, figure in best.items():
        print(f"{figure / MILLION:.2f} M rows per CPU second  {name}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
