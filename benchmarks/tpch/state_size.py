"""The size of the state of a query after all changes, while its sources wait for more.

A job that has ended has no state, so the files are watched, and metrics are read until no part
takes rows any more.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from urllib.error import URLError
from urllib.request import urlopen

from benchmarks.tpch.pipelines import list_tables, write_pipeline

IDLE_S = 3
"""The metrics of a job that takes no rows for so long are final: they are sampled each second."""


def measure_state(root: Path, query: str, changes: int) -> int:
    """Return the bytes of memory and disk of all states of the query."""
    pipeline = root / f"{query}_watched.yaml"
    source = "files: {path: $.jsonl, watch: 1s}"
    pipeline.write_text(write_pipeline(f"{query}_watched", [query], source))
    with _run(pipeline, str(root / "home")) as port:
        seen = [_read_metric(port, "headrace_rows_in_total")]
        while seen[-1 - IDLE_S :] != [seen[-1]] * (1 + IDLE_S) or _count(query, seen[-1]) < changes:
            sleep(1)
            seen.append(_read_metric(port, "headrace_rows_in_total"))
        kinds = ("memory", "disk")
        sizes = [_read_metric(port, f"headrace_state_{kind}_bytes") for kind in kinds]
    return sum(size for found in sizes for _, size in found)


def _count(query: str, rows_in: list[tuple[str, int]]) -> int:
    """Return how many rows the sources of a query have read."""
    return sum(rows for part, rows in rows_in if part in list_tables(query))


def _read_metric(port: int, name: str) -> list[tuple[str, int]]:
    """Return the samples of a metric: parts and values."""
    text = urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    samples = re.findall(rf'^{name}{{.*?part="(.*?)".*?}} (\S+)$', text, re.MULTILINE)
    return [(part, int(float(value))) for part, value in samples]


@contextmanager
def _run(pipeline: Path, home: str) -> Iterator[int]:
    """Run a pipeline; the value is the port of its metrics."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    options = ["--quiet", "--fresh", "--home", home, "--http", str(port)]
    checkpoints = ["--set", "settings.checkpoint.every=never"]
    command = [sys.executable, "-m", "headrace.cli", "run", str(pipeline), *options, *checkpoints]
    running = subprocess.Popen(command)
    try:
        while not _is_ready(port):
            assert running.poll() is None, f"{pipeline} has failed"
            sleep(0.1)
        yield port
    finally:
        running.kill()
        running.wait()


def _is_ready(port: int) -> bool:
    try:
        return bool(urlopen(f"http://127.0.0.1:{port}/ready").status)
    except URLError:
        return False
