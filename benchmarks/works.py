"""W1 to W4: JSON lines in a file to JSON lines in a file, against DuckDB and a plain Python loop.

W1 keeps the bids whose url has "item7" (11 %), with all fields; W2 computes four fields of every
bid; W3 and W4 aggregate in tumbling windows, of 10 s by auction (10 k keys) and of 60 s by bidder
(1 M keys). The figure is the CPU seconds of the whole process per million records. Figure and
ratios are the least of the rounds, because other work on the machine only adds; the ratios of the
single rounds follow.
`python -m benchmarks.works [w1|w2|w3|w4] [ROUNDS]`
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.bids import bids
from benchmarks.timing import compile_all, measure

MILLIONS = 2
PIPELINE = """
name: {work}
sources:
  bids:
    files: {{path: bids.jsonl}}
    schema: {{auction: bigint, bidder: bigint, price: bigint, channel: string, url: string,
             ts: {type}}}
{time}
steps:
  step:
    from: bids
{step}
sinks:
  out: {{from: step, files: {{path: out, mode: overwrite}}}}
"""
TIME = """
    json: {epoch: ms}
    event_time: ts
    watermark: {delay: 2s}
"""
WINDOW = """
    key: {key}
    window: {{tumble: {size}}}
    aggregate: {{n: count(*), total: sum(price), maxp: max(price)}}
"""
STEPS = {
    "w1": "    where: url like '%item7%'",
    "w2": "    select: {auction: auction, bidder: bidder, price_eur: price * 0.908D, ts: ts}",
    "w3": WINDOW.format(key="auction", size="10s"),
    "w4": WINDOW.format(key="bidder", size="60s"),
}


def pipeline(work: str) -> str:
    """Return the text of the pipeline."""
    timed = work in ("w3", "w4")
    type = "timestamp" if timed else "bigint"
    return PIPELINE.format(work=work, type=type, time=TIME if timed else "", step=STEPS[work])


def main(work: str = "w1", rounds: str = "3") -> None:
    """Print the figure, and the ratios on stderr."""
    compile_all()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "bids.jsonl").write_bytes(bids(MILLIONS * 1_000_000))
        (root / "p.yaml").write_text(pipeline(work))
        taken = [_round(root, work) for _ in range(int(rounds))]
    least = {name: min(t[name] for t in taken) for name in taken[0]}
    print(f"{work} {least['headrace'] / MILLIONS:.2f} CPU s per 1 M records")
    for name in ("duckdb", "loop"):
        ratio = least["headrace"] / least[name]
        ratios = sorted(t["headrace"] / t[name] for t in taken)
        shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"  {ratio:.2f} times {name}'s CPU ({shown})", file=sys.stderr)


def _round(root: Path, work: str) -> dict[str, float]:
    """Return the CPU seconds of each, one after the other."""
    python, source = sys.executable, str(root / "bids.jsonl")
    shutil.rmtree(root / "out", ignore_errors=True)
    commands = {
        "headrace": run(root),
        "duckdb": ["-m", "benchmarks.references", "duckdb", work, source, str(root / "d")],
        "loop": ["-m", "benchmarks.references", "loop", work, source, str(root / "l")],
    }
    return {name: cpu_s([python, *command]) for name, command in commands.items()}


def run(root: Path, checkpoints: str = "never") -> list[str]:
    """Return the command that runs the pipeline of a folder, with this checkpoint interval."""
    return [
        *("-m", "headrace.cli", "run", str(root / "p.yaml"), "--quiet", "--fresh"),
        *("--home", str(root / "home"), "--set", f"settings.checkpoint.every={checkpoints}"),
    ]


def cpu_s(command: list[str]) -> float:
    """Return the CPU seconds of a command."""
    return measure(command).cpu_s


if __name__ == "__main__":
    main(*sys.argv[1:])
