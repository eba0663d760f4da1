"""Stuck and healthy pipelines in processes of their own, and what `headrace why` says of each.

All run at once, because each is idle nearly all the time. tests/core/diagnosis has the causes that
no source of files or numbers can show, on virtual time.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli.command_process import run_headrace, start_headrace
from tests.support.cli.processes import limited

POLL_S = 0.3
NUMBERS = "sources: {{numbers: {{generate: {{rate: {rate}/s, columns: {{x: id}}}}}}}}\n"
TIMED = (
    "sources:\n"
    "  numbers:\n"
    "    generate: {{rate: 20/s, columns: {{x: id, at: 'timestamp_seconds({seconds})'}}}}\n"
    "    event_time: at\n"
    "steps: {{n: {{from: numbers, window: {{tumble: 5s}}, aggregate: {{n: count(*)}}}}}}\n"
    "sinks: {{out: {{from: n, files: {{path: out/{name}}}}}}}\n"
)
OUT = "sinks: {{out: {{from: {source}, files: {{path: out/{name}}}}}}}\n"

PIPELINES = {
    "where": NUMBERS.format(rate=20)
    + "steps: {large: {from: numbers, where: x < 0}}\n"
    + OUT.format(source="large", name="where"),
    "future": TIMED.format(seconds="if(id = 20, 32503680000, 1700000000 + id)", name="future"),
    "late": TIMED.format(seconds="1700000000 + id - if(id % 2 = 0, 100, 0)", name="late"),
    "empty": "sources: {rows: {files: {path: 'empty/*.jsonl', watch: 1s}, schema: {x: bigint}}}\n"
    + OUT.format(source="rows", name="empty"),
    "bad": "sources:\n"
    "  rows: {files: {path: 'bad/*.jsonl', watch: 1s}, schema: {x: bigint}, on_error: skip}\n"
    + OUT.format(source="rows", name="bad"),
    "slow": NUMBERS.format(rate=2000) + "steps:\n"
    "  mapped:\n"
    "    from: numbers\n"
    "    map: {python: code.py:slow, returns: {x: bigint}}\n"
    "    parallelism: 2\n"
    + OUT.format(source="mapped", name="slow")
    + "settings: {buffer: {rows: 100}}\n",
    "failing": NUMBERS.format(rate=20)
    + "steps: {mapped: {from: numbers, map: {python: code.py:fail, returns: {x: bigint}}}}\n"
    + OUT.format(source="mapped", name="failing")
    + "settings: {restart: {strategy: fixed, delay: 10m}}\n",
    "copied": NUMBERS.format(rate=20) + OUT.format(source="numbers", name="copied"),
    "counted": TIMED.format(seconds="1700000000 + id", name="counted"),
}
CODE = """\
import time

def slow(rows):
    time.sleep(0.5)
    return rows

def fail(rows):
    raise OSError("the server is down")
"""


@dataclass(frozen=True)
class Jobs:
    """The pipelines of a folder, each in its process."""

    folder: Path
    processes: Mapping[str, subprocess.Popen[Any]]

    def ask(self, name: str) -> Mapping[str, Any]:
        """Return the answer of `why`, as soon as the job has started."""
        while True:
            ran = run_headrace("why", name, "--json", cwd=self.folder)
            if ran.returncode == 0:
                document: Mapping[str, Any] = json.loads(ran.stdout)
                return document
            # A job that has ended will not answer; its process is killed if it takes too long.
            log = (self.folder / f"{name}.log").read_text()
            assert self.processes[name].poll() is None, ran.stderr + log
            time.sleep(POLL_S)

    def ask_until(self, name: str, meets: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
        """Return the first answer that meets a condition."""
        while not meets(document := self.ask(name)):
            time.sleep(POLL_S)
        return document


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Return the pipelines, all of which run."""
    folder = tmp_path_factory.mktemp("pipelines")
    (folder / "code.py").write_text(CODE)
    for name, text in (("empty", ""), ("bad", '{"x": 1}\nno json\n')):
        (folder / name).mkdir()
        (folder / name / "a.jsonl").write_text(text)
    processes = {name: start(folder, name, text) for name, text in PIPELINES.items()}
    yield Jobs(folder, processes)
    for process in processes.values():
        process.kill()
        process.wait()


def start(folder: Path, name: str, text: str) -> subprocess.Popen[Any]:
    """Start a pipeline, whose output is in a file of its name."""
    (folder / f"{name}.yaml").write_text(f"name: {name}\n{text}")
    with (folder / f"{name}.log").open("w") as log:
        return limited(start_headrace("run", f"{name}.yaml", cwd=folder, stdout=log, stderr=log))


@pytest.mark.parametrize(
    ("name", "cause", "part", "setting"),
    [
        ("future", "future_watermark", "numbers", "`event_time:` of source numbers"),
        ("late", "late_rows", "n", "`watermark: {delay: ...}` of numbers"),
        ("empty", "no_rows", "rows", "`path:` of rows"),
        ("bad", "bad_rows", "rows", "`on_error:` of source rows"),
        ("slow", "backpressure", "mapped", "`parallelism: 4` of step mapped"),
        ("where", "where_passes_nothing", "large", "`where:` of step large"),
        ("failing", "restarts", None, "`restart:` in `settings:`"),
    ],
)
def test_a_stuck_pipeline_is_told_its_cause_and_the_setting(
    jobs: Jobs, name: str, cause: str, part: str | None, setting: str
) -> None:
    def has_cause(document: Mapping[str, Any]) -> bool:
        return any(each["cause"] == cause for each in document["findings"])

    findings = jobs.ask_until(name, has_cause)["findings"]
    (found,) = (each for each in findings if each["cause"] == cause)
    assert found["part"] == part
    assert setting in found["setting"]


@pytest.mark.parametrize("name", ["copied", "counted"])
def test_nothing_holds_a_healthy_pipeline_back(jobs: Jobs, name: str) -> None:
    answer = jobs.ask_until(name, lambda document: document["rows_out"] > 0)
    assert answer["findings"] == []
    ran = run_headrace("why", name, cwd=jobs.folder)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(f"{name} is running: ")
