"""Timelines: the figures of each job in the last hour, which the server samples.

A job has no memory of its own rates, and one that has ended cannot be asked. So the server asks
each job every five seconds, and retains a bounded number of samples, also from before a restart.
Processor time and memory are those of the job's processes, as the system counts them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any

import orjson

from headrace.cli.control.http_messages import RequestError
from headrace.cli.control.job_lookup import list_homes
from headrace.cli.server.job_forwarding import forward_request
from headrace.core.types.lazy_dataclass import dataclass

SAMPLE_INTERVAL_S = 5.0
MAX_SAMPLES = 720
FIELDS = (
    *("time", "in_per_s", "out_per_s", "lag_s", "busy", "backpressured"),
    *("latency_p50_s", "latency_p99_s", "cpu", "rss_bytes", "state_bytes", "bad", "late"),
)
"""The fields of a sample; `time` in seconds since 1970, and `cpu` in cores."""

Sample = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """The processor time and the memory of processes."""

    seconds: Mapping[int, float]
    """The processor time of each process, by its id."""
    rss_bytes: int

    def compute_cores(self, before: ProcessUse, passed_s: float) -> float:
        """Return the cores in use since an earlier sample, by the processes of both."""
        used = [
            self.seconds[pid] - before.seconds[pid] for pid in self.seconds.keys() & before.seconds
        ]
        return sum(used) / passed_s


def measure_processes(pids: Collection[int]) -> ProcessUse:
    """Measure processes; those that have ended use nothing."""
    seconds, rss_bytes = dict[int, float](), 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/stat", "rb") as file:
                # The name of the program, in parentheses, may hold spaces.
                words = file.read().rpartition(b")")[2].split()
            ticks = int(words[11]) + int(words[12])
            seconds[pid] = ticks / os.sysconf("SC_CLK_TCK")
            rss_bytes += int(words[21]) * os.sysconf("SC_PAGE_SIZE")
    return ProcessUse(seconds, rss_bytes)


@dataclass(slots=True)
class JobTimeline:
    """The samples of one job, the oldest first."""

    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))
    _before: tuple[float, int, int, ProcessUse] | None = None

    def add(self, at_s: float, statistics: Mapping[str, Any], use: ProcessUse) -> None:
        """Add a sample from the answer of a job's statistics."""
        parts, subtasks = statistics["parts"].values(), statistics["subtasks"]
        rows_in = sum(part["rows_in"] for part in parts if part["kind"] == "source")
        rows_out = sum(part["rows_out"] for part in parts if part["kind"] == "sink")
        in_per_s = out_per_s = cores = None
        if self._before is not None:
            then_s, in_before, out_before, use_before = self._before
            passed_s = max(at_s - then_s, 1e-3)
            # A restart resets the counts to those of the checkpoint.
            in_per_s = max(rows_in - in_before, 0) / passed_s
            out_per_s = max(rows_out - out_before, 0) / passed_s
            cores = use.compute_cores(use_before, passed_s)
        self._before = at_s, rows_in, rows_out, use
        latencies = [each for part in parts for each in part.get("latency", {}).values()]
        state = statistics["state"]
        self.samples.append(
            (
                at_s,
                _round(in_per_s),
                _round(out_per_s),
                max((part["lag_s"] for part in parts if part["lag_s"] is not None), default=None),
                max((subtask["busy"] for subtask in subtasks), default=0.0),
                max((subtask["backpressured"] for subtask in subtasks), default=0.0),
                max((each["p50_s"] for each in latencies), default=None),
                max((each["p99_s"] for each in latencies), default=None),
                _round(cores),
                use.rss_bytes,
                state["bytes"] + state["bytes_on_disk"],
                sum(part["bad"] for part in parts),
                sum(part["late"] or 0 for part in parts),
            )
        )

    def build_document(self) -> dict[str, Any]:
        """Return the samples as plain data: a list for each field."""
        columns = zip(*self.samples, strict=True) if self.samples else ((),) * len(FIELDS)
        named = dict(zip(FIELDS, map(list, columns), strict=True))
        return {"interval_s": SAMPLE_INTERVAL_S, **named}


@dataclass(slots=True)
class Timelines:
    """The timelines of all jobs of a home."""

    root: str
    """The folder of all homes."""
    report_bug: Callable[[BaseException], None]
    find_process: Callable[[str], int | None] = lambda name: None
    """Returns the process of a served job, beside those that the job reports."""
    by_job: dict[str, JobTimeline] = field(default_factory=dict)

    async def watch(self) -> None:
        """Sample all jobs until cancelled."""
        while True:
            try:
                await self.sample_all()
            except Exception as error:
                self.report_bug(error)
            await asyncio.sleep(SAMPLE_INTERVAL_S)

    async def sample_all(self) -> None:
        """Take a sample of each job that runs, and forget jobs without a home."""
        homes = await asyncio.to_thread(list_homes, self.root)
        names = {home.name for home in homes}
        for gone in self.by_job.keys() - names:
            del self.by_job[gone]
        await asyncio.gather(*(self._sample(home.name, home.folder) for home in homes))

    async def _sample(self, name: str, folder: str) -> None:
        try:
            async with asyncio.timeout(SAMPLE_INTERVAL_S):  # the next samples of others wait
                answer = await forward_request(folder, "GET", "/v1/statistics")
        except (RequestError, TimeoutError):
            return
        statistics = orjson.loads(answer.body)
        if answer.status != 200 or not statistics["parts"]:
            return
        pids = {subtask["pid"] for subtask in statistics["subtasks"]} | {self.find_process(name)}
        use = measure_processes([pid for pid in pids if pid is not None])
        timeline = self.by_job.setdefault(name, JobTimeline())
        timeline.add(round(time.time(), 2), statistics, use)


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
