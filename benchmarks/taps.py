"""Cost of looking at rows: CPU of a job a row with 20 taps over one stream, over that without taps.

The job runs in a process of its own as fast as it can. In turns, a client reads a stream of 20 taps
with different conditions, and none, for some seconds each; so other work falls on both. The figure
is the median ratio of the turns. On stderr: each turn, and the ratios of turns without taps to each
other, which are the noise.
`python -m benchmarks.taps [TURNS] [SECONDS]`
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

from headrace.cli.control.client import JobClient, NotListening
from headrace.cli.errors import Refusal
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk

TAPS = 20
PIPELINE = """
name: taps
sources:
  numbers: {generate: {rate: 10000000/s, columns: {id: id, k: id % 1000, name: "concat('n', id)"}}}
steps:
  even: {from: numbers, where: id % 2 = 0}
  priced: {from: even, with: {price: k * 0.908D}, where: k <> 7}
  totals: {from: priced, key: k, aggregate: {n: count(*), total: sum(price)}}
  few: {from: totals, where: n % 1000000 = 0}
sinks:
  out: {from: few, files: {path: out}}
"""


def main(turns: str = "5", seconds: str = "5") -> None:
    """Print the figure."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "taps.yaml")
        path.write_text(PIPELINE)
        command = (sys.executable, "-m", "headrace.cli", "run", str(path))
        job = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
        try:
            measure(
                job.pid, JobClient(Home(LocalDisk(), f"{folder}/.headrace", "taps")), turns, seconds
            )
        finally:
            job.kill()
            job.wait()


def measure(pid: int, client: JobClient, turns: str, seconds: str) -> None:
    """Measure in turns, and print the figure."""
    wait_until_running(client)
    ratios, plain = [], [measure_turn(pid, client, float(seconds), 0)]
    for _ in range(int(turns)):
        tapped = measure_turn(pid, client, float(seconds), TAPS)
        plain.append(measure_turn(pid, client, float(seconds), 0))
        ratios.append(tapped / statistics.mean(plain[-2:]))
        print(f"{tapped:.4f} us a row, {plain[-1]:.4f} without", file=sys.stderr)
    noise = [after / before for before, after in pairwise(plain)]
    print(f"taps {statistics.median(ratios):.3f} of the CPU without, with {TAPS} taps")
    print(f"without taps, turn to turn: {min(noise):.3f} to {max(noise):.3f}", file=sys.stderr)


def wait_until_running(client: JobClient) -> None:
    """Wait until the job has read rows for some seconds."""
    while True:
        time.sleep(1.0)
        try:
            if client.fetch_job()["rows_in"] > 1_000_000:
                return
        except NotListening:
            pass


def measure_turn(pid: int, client: JobClient, seconds: float, taps: int) -> float:
    """Return the microseconds of CPU a row, while a number of taps is read."""
    viewer = threading.Thread(target=read_taps, args=(client, taps, seconds + 2.0), daemon=True)
    if taps:
        viewer.start()
    time.sleep(1.0)
    cpu_s, rows = read_cpu_s(pid), int(client.fetch_job()["rows_in"])
    time.sleep(seconds)
    cpu_s, rows = read_cpu_s(pid) - cpu_s, int(client.fetch_job()["rows_in"]) - rows
    if taps:
        viewer.join()
    return cpu_s / rows * 1e6


def read_taps(client: JobClient, taps: int, seconds: float) -> None:
    """Read the rows of taps for some seconds."""
    wanted = [{"from": "priced", "where": f"k % {number + 2} = 0"} for number in range(taps)]
    until_s, rows = time.monotonic() + seconds, 0
    for kind, data in JobClient(client.home).stream_events("/v1/events", {"taps": wanted}):
        if kind == "error":
            raise Refusal(data["message"])
        rows += len(data["rows"])
        if time.monotonic() > until_s:
            break
    print(f"{rows} rows of {taps} taps seen", file=sys.stderr)


def read_cpu_s(pid: int) -> float:
    """Return the CPU time of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(*sys.argv[1:])
