"""W1 to W4 with --batch, from JSON lines to JSON lines or from Parquet to Parquet, against Spark.

The reference is a program written for Spark by hand (`batch_references`); both use two cores. The
figure is the ratio of the times inside of Spark, the least of the rounds of each. On stderr: both
times, and the ratios for whole processes, including the start and end of Java. These are in
wall-clock time and in CPU, which is what counts when the machine has other work.
`python -m benchmarks.batch [w1|w2|w3|w4] [json|parquet] [MILLIONS] [ROUNDS]`
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from benchmarks.bids import bids
from benchmarks.timing import compile_all
from benchmarks.works import pipeline

KINDS = ("inside", "whole", "cpu")
ROOT = Path(__file__).parent.parent


def main(work: str = "w1", format: str = "json", millions: str = "5", rounds: str = "3") -> None:
    """Print the figure."""
    compile_all()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _prepare(root, work, format, int(float(millions) * 1_000_000))
        taken = [_round(root, work, format) for _ in range(int(rounds))]
    least = {name: min(each[name] for each in taken) for name in taken[0]}
    inside, whole, cpu = (least[kind] / least[f"{kind} by hand"] for kind in KINDS)
    print(f"{work} {format} {inside:.2f} times the program by hand, inside of Spark")
    for name, seconds in least.items():
        print(f"  {name} {seconds:.2f} s", file=sys.stderr)
    print(f"  {whole:.2f} times its whole process, {cpu:.2f} times its CPU", file=sys.stderr)


def _prepare(root: Path, work: str, format: str, rows: int) -> None:
    """Write the bids and the pipeline."""
    lines = root / "bids.jsonl"
    with lines.open("wb") as file:
        file.write(bids(rows))
    text = pipeline(work)
    if format == "parquet":
        stamp = pl.from_epoch("ts", time_unit="ms").dt.cast_time_unit("us")
        frame = pl.scan_ndjson(lines).with_columns(stamp.dt.replace_time_zone("UTC"))
        frame.sink_parquet(root / "bids.parquet", row_group_size=500_000)
        lines.unlink()
        text = text.replace("json: {epoch: ms}", "").replace("ts: bigint", "ts: timestamp")
        text = text.replace("{path: bids.jsonl}", "{path: bids.parquet}\n    format: parquet")
        text = text.replace("mode: overwrite}", "mode: overwrite}, format: parquet")
    (root / "p.yaml").write_text(text)


def _round(root: Path, work: str, format: str) -> dict[str, float]:
    """Return the seconds of each, one after the other."""
    source = str(next(root.glob("bids.*")))
    shutil.rmtree(root / "out", ignore_errors=True)
    shutil.rmtree(root / "hand", ignore_errors=True)
    hand = ["benchmarks.batch_references", work, format, source, str(root / "hand")]
    ours = ["benchmarks.batch_inside", str(root / "p.yaml")]
    taken = dict(zip(KINDS, _seconds(ours), strict=True))
    by_hand = zip(KINDS, _seconds(hand), strict=True)
    rows = [_rows(root / name, format) for name in ("out", "hand")]
    assert rows[0] == rows[1], rows
    return taken | {f"{kind} by hand": seconds for kind, seconds in by_hand}


def _seconds(command: list[str]) -> tuple[float, float, float]:
    """Return the seconds that a command prints, its wall-clock time and its CPU."""
    start, before = time.perf_counter(), _cpu_s()
    ran = subprocess.run(
        [sys.executable, "-m", *command],
        check=True,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    return float(ran.stdout), time.perf_counter() - start, _cpu_s() - before


def _cpu_s() -> float:
    """Return the CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _rows(folder: Path, format: str) -> int:
    """Count the written rows."""
    parts = folder.glob("part-*")
    if format == "parquet":
        return sum(pl.scan_parquet(part).select(pl.len()).collect().item() for part in parts)
    return sum(part.read_bytes().count(b"\n") for part in parts)


if __name__ == "__main__":
    main(*sys.argv[1:])
