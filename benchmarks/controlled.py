"""A controlled running job: its rate during a savepoint, and its pause for a rescale.

`controlled savepoint [KEYS]`: rows per second while a savepoint of a running aggregate is written,
relative to the rate without one; on stderr the checkpoint that it starts with, and the writing.
`controlled rescale [KEYS]`: seconds without a row when the job goes from 2 subtasks to 3.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.timing import compile_all
from headrace.cli.control.client import JobClient, NoAnswer, NotListening
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk

SAVED, MOVED = 10_000_000, 1_000_000
TIMES = 5
BEFORE_S = 8.0
PIPELINE = """\
name: controlled
settings: {parallelism: PARALLELISM, checkpoint: {every: EVERY}, state: {memory: 4GB}}
sources: {numbers: {generate: {RATEcolumns: {x: id}}}}
steps:
  totals:
    from: numbers
    key: {k: x % KEYS}
    aggregate: {n: count(*), total: sum(x), name: "max(concat('the last of them was number ', x))"}
    having: n < 0
sinks:
  out: {from: totals, files: {path: out, mode: overwrite}}
"""


@contextmanager
def running(keys: int, rate: str, every: str, parallelism: int) -> Iterator[JobClient]:
    """Yield a client of the job when the job has read a row of each key."""
    compile_all()
    with tempfile.TemporaryDirectory() as folder:
        text = PIPELINE.replace("KEYS", str(keys)).replace("RATE", rate).replace("EVERY", every)
        Path(folder, "p.yaml").write_text(text.replace("PARALLELISM", str(parallelism)), "utf-8")
        command = [sys.executable, "-m", "headrace.cli", "run", "p.yaml", "--quiet"]
        process = subprocess.Popen(command, cwd=folder)
        client = JobClient(Home(LocalDisk(), str(Path(folder, ".headrace")), "controlled"))
        try:
            while rows(client) < keys:
                assert process.poll() is None
                time.sleep(0.5)
            yield client
        finally:
            process.kill()
            process.wait()


def rows(client: JobClient) -> int:
    """Return the number of rows read."""
    try:
        return int(client.fetch_job()["rows_in"])
    except (NotListening, NoAnswer):
        return 0


def rate(client: JobClient, seconds: float) -> float:
    """Return the rows per second, measured for that time."""
    before, start = rows(client), time.perf_counter()
    time.sleep(seconds)
    return (rows(client) - before) / (time.perf_counter() - start)


def savepoint(keys: int) -> None:
    """Print the share of the rate that remains."""
    with running(keys, "", "1h", 1) as client:
        before = rate(client, BEFORE_S)
        marks = [(time.perf_counter(), rows(client), "")]
        operation = client.request_operation("/v1/savepoints", {})
        while operation["state"] in ("waiting", "running"):
            time.sleep(0.1)
            _, operation = client.send_request("GET", f"/v1/operations/{operation['id']}")
            marks.append((time.perf_counter(), rows(client), str(operation["progress"]["words"])))
        assert operation["state"] == "done", operation
        after = rate(client, BEFORE_S)
        size = sum(p.stat().st_size for p in Path(operation["result"]["path"]).rglob("*.parquet"))
    (start, first, _), (end, last, _) = marks[0], marks[-1]
    usual = (before + after) / 2
    print(f"controlled savepoint {(last - first) / (end - start) / usual:.2f}")
    print(f"{end - start:.1f} s for {size / 1e6:.0f} MB; {usual:,.0f} rows/s", file=sys.stderr)
    for doing in dict.fromkeys(doing for _, _, doing in marks[1:]):
        parts = [(a, b) for a, b in pairwise(marks) if b[2] == doing]
        took = sum(b[0] - a[0] for a, b in parts)
        part = sum(b[1] - a[1] for a, b in parts) / took / usual
        print(f"  {doing}: {took:.1f} s at {part:.2f} of the rate", file=sys.stderr)


def rescale(keys: int) -> None:
    """Print the length of the pause, and the size of the state."""
    stood = []
    with running(keys, "rate: 100000/s, ", "2s", 2) as client:
        for parallelism in (3, 2) * TIMES:
            operation = client.request_operation("/v1/rescale", {"parallelism": parallelism})
            while operation["state"] in ("waiting", "running"):
                _, operation = client.send_request(
                    "GET", f"/v1/operations/{operation['id']}?wait_s=5"
                )
            assert operation["state"] == "done", operation
            stood.append(float(operation["result"]["stood_still_s"]))
            time.sleep(3)
        _, said = client.send_request("GET", "/v1/checkpoints")
    print(f"controlled rescale {median(stood):.2f}")
    print(", ".join(f"{each:.2f}" for each in stood), file=sys.stderr)
    print(said["newest"], file=sys.stderr)


if __name__ == "__main__":
    what, *size = sys.argv[1:]
    work, keys = {"savepoint": (savepoint, SAVED), "rescale": (rescale, MOVED)}[what]
    work(int(size[0]) if size else keys)
