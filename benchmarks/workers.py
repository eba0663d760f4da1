"""Two worker processes against one process, over eight files of JSON lines.

`w2` and `w4` are those of `works`; `on_row` is that of `process`; `map` calls a Python function for
each row, without a key. The figure is the wall-clock time in one process over that with two
workers, both without the time of a start, which a run over one row takes. On stderr: the ratio of
the CPU times; the same for two jobs that share nothing, each over a half of the files, which is the
most that two processes can gain on the machine; and the single rounds, which alternate.
`python -m benchmarks.workers [w2|w4|on_row|map] [MILLIONS] [ROUNDS]`
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from benchmarks import process, works
from benchmarks.bids import bids
from benchmarks.timing import Took, compile_all, measure

FILES = 8
KINDS = {"one process": 1, "two workers": 2}
MAP = "    map: {python: functions.py:euros, mode: row, returns: {auction: bigint, price: double}}"
FUNCTIONS = """
def euros(row):
    return {"auction": row["auction"], "price": row["price"] * 0.908}
"""


def main(work: str = "w2", millions: str = "8", rounds: str = "3") -> None:
    """Print the figure, and the rounds on stderr."""
    compile_all()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _write(root, work, int(float(millions) * 1_000_000))
        starts = {kind: _run(root, "one.jsonl", workers) for kind, workers in KINDS.items()}
        taken = defaultdict[str, list[Took]](list)
        for _ in range(int(rounds)):
            for kind, workers in KINDS.items():
                taken[kind].append(_less(_run(root, "in/*.jsonl", workers), starts[kind]))
            taken["halves"].append(_less(_run_halves(root), starts["one process"]))
    one, two, halves = (_find_least(taken[kind]) for kind in (*KINDS, "halves"))
    print(f"{work} {one.wall_s / two.wall_s:.2f} times as fast with two workers")
    print(f"  {two.cpu_s / one.cpu_s:.2f} times the CPU", file=sys.stderr)
    apart = f"{one.wall_s / halves.wall_s:.2f} times as fast, {halves.cpu_s / one.cpu_s:.2f} times"
    print(f"  two jobs over a half each: {apart} the CPU", file=sys.stderr)
    for kind, took in taken.items():
        shown = ", ".join(f"{each.wall_s:.1f} ({each.cpu_s:.1f})" for each in took)
        print(f"  {kind}: wall (CPU) s {shown}", file=sys.stderr)


def _less(took: Took, start: Took) -> Took:
    return Took(took.wall_s - start.wall_s, took.cpu_s - start.cpu_s)


def _find_least(took: Sequence[Took]) -> Took:
    return Took(min(each.wall_s for each in took), min(each.cpu_s for each in took))


def _write(root: Path, work: str, rows: int) -> None:
    """Write the pipeline, and the files: the same rows in each, in event-time order."""
    (root / "in").mkdir()
    first = root / "in" / "0.jsonl"
    if work == "on_row":
        first.write_bytes(process.payments(rows // FILES, 100_000))
        text = process.PIPELINE.format(kind="on_row")
        (root / "totals.py").write_text(process.TOTALS)
    else:
        first.write_bytes(bids(rows // FILES))
        step = work if work in works.STEPS else "w2"
        text = works.pipeline(step)
        if work == "map":
            text = text.replace(works.STEPS[step], MAP)
            (root / "functions.py").write_text(FUNCTIONS)
    with first.open("rb") as lines:
        (root / "one.jsonl").write_bytes(lines.readline())
    for number in range(1, FILES):
        os.link(first, root / "in" / f"{number}.jsonl")
    (root / "p.yaml").write_text(text)


def _run(root: Path, files: str, workers: int) -> Took:
    """Run the pipeline over these files."""
    return measure(_command(root, files, "out", workers))


def _run_halves(root: Path) -> Took:
    """Run the pipeline over both halves of the files at once, by processes that share nothing."""
    halves = ("in/[0-3].jsonl", "in/[4-7].jsonl")
    return measure(*(_command(root, files, f"out{files[4]}", 1) for files in halves))


def _command(root: Path, files: str, out: str, workers: int) -> list[str]:
    shutil.rmtree(root / out, ignore_errors=True)
    source = "payments" if "payments:" in (root / "p.yaml").read_text() else "bids"
    return [
        *(sys.executable, *works.run(root), "--set", f"sources.{source}.files.path={files}"),
        *("--set", f"sinks.out.files.path={out}", "--home", str(root / f"home of {out}")),
        *("--parallelism", str(workers), "--workers", str(workers)),
    ]


if __name__ == "__main__":
    main(*sys.argv[1:])
