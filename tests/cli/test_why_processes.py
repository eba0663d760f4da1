"""Stuck and healthy pipelines in processes of their own, and what is found of each.

All run at once, because each is idle nearly all the time. tests/connectors/kafka/test_why.py has
the causes that need a broker, tests/core/diagnosis has all of them on virtual time.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.control.client import JobClient, NoAnswer, NotListening
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
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
    "unmarked": TIMED.format(seconds="1700000000 + id", name="unmarked").replace(
        "event_time: at", "event_time: at\n    watermark: {from: 'if(x < 0, at, null)'}"
    ),
    "skewed": NUMBERS.format(rate=400) + "steps:\n"
    "  slow:\n"
    "    from: numbers\n"
    "    key: {k: 'if(x % 20 = 0, x, 3)'}\n"
    "    process: {python: code.py:Slow, returns: {x: bigint}, order: arrival}\n"
    "    parallelism: 4\n"
    + OUT.format(source="slow", name="skewed")
    + "settings: {buffer: {rows: 50}}\n",
    "unread": NUMBERS.format(rate=20000) + "sinks: {out: {from: numbers, console: {}}}\n",
    "unanswered": NUMBERS.format(rate=20) + "steps:\n"
    "  named:\n"
    "    from: numbers\n"
    "    lookup:\n"
    "      http: {url: 'http://127.0.0.1:PORT/{x}'}\n"
    "      on: {x: x}\n"
    "      add: {name: string}\n"
    "      timeout: 1s\n"
    "      retries: 50\n" + OUT.format(source="named", name="unanswered"),
    "unsaved": NUMBERS.format(rate=20)
    + "steps: {mapped: {from: numbers, map: {python: code.py:slow, returns: {x: bigint}}}}\n"
    + OUT.format(source="mapped", name="unsaved")
    + "settings: {checkpoint: {every: 300ms, timeout: 10ms, tolerable_failures: 1000}}\n",
    "having": TIMED.format(seconds="1700000000 + id", name="having").replace(
        "n: count(*)}", "n: count(*)}, having: n > 9"
    ),
    "unmatched": NUMBERS.format(rate=40) + "steps:\n"
    "  even: {from: numbers, where: x % 2 = 0}\n"
    "  odd: {from: numbers, where: x % 2 = 1}\n"
    "  pairs: {join: {left: even, right: odd, on: even.x = odd.x}, select: {x: even.x}}\n"
    + OUT.format(source="pairs", name="unmatched"),
    "copied": NUMBERS.format(rate=20) + OUT.format(source="numbers", name="copied"),
    "counted": TIMED.format(seconds="1700000000 + id", name="counted"),
}
CODE = """\
import time

from headrace import Process

def slow(rows):
    time.sleep(0.5)
    return rows

def fail(rows):
    raise OSError("the server is down")

class Slow(Process):
    def on_row(self, row, state, out):
        time.sleep(0.02)
        out(x=row.x)
"""


@dataclass(frozen=True)
class Jobs:
    """The pipelines of a folder, each in its process."""

    folder: Path
    processes: Mapping[str, subprocess.Popen[Any]]

    def ask_until(self, name: str, meets: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
        """Return the first diagnosis of a job that meets a condition."""
        client = JobClient(Home(LocalDisk(), str(self.folder / ".headrace"), name))
        while True:
            try:
                status, document = client.send_request("GET", "/v1/findings")
            except (NotListening, NoAnswer):
                status, document = 0, {}
            if status == 200 and meets(document):
                return document
            # A job that has ended will not answer; its process is killed if it takes too long.
            log = (self.folder / f"{name}.log").read_text()
            assert self.processes[name].poll() is None, log
            time.sleep(POLL_S)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Return the pipelines, all of which run."""
    folder = tmp_path_factory.mktemp("pipelines")
    (folder / "code.py").write_text(CODE)
    for name, text in (("empty", ""), ("bad", '{"x": 1}\nno json\n')):
        (folder / name).mkdir()
        (folder / name / "a.jsonl").write_text(text)
    with ExitStack() as stack:
        # Connections are accepted by the system, and nothing answers.
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = str(silent.getsockname()[1])
        processes = {
            name: start(folder, name, text.replace("PORT", port))
            for name, text in PIPELINES.items()
        }
        stack.callback(end_all, processes.values())
        yield Jobs(folder, processes)


def start(folder: Path, name: str, text: str) -> subprocess.Popen[Any]:
    """Start a pipeline, whose output is in a file of its name, or in a pipe that nobody reads."""
    (folder / f"{name}.yaml").write_text(f"name: {name}\n{text}")
    with (folder / f"{name}.log").open("w") as log:
        out: Any = subprocess.PIPE if "console:" in text else log
        return limited(start_headrace("run", f"{name}.yaml", cwd=folder, stdout=out, stderr=log))


def end_all(processes: Iterable[subprocess.Popen[Any]]) -> None:
    """Kill processes, and close the pipes of their output."""
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


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
        ("unmarked", "watermark_stands_still", "numbers", "`watermark: {from: ...}` of source"),
        ("skewed", "skew", "slow", "`key:` of step slow"),
        ("unread", "backpressure", "out", "`parallelism: 2` of sink out"),
        ("unanswered", "lookup_waits", "named", "`timeout: 1s`, `retries: 50`"),
        ("unsaved", "checkpoints_fail", None, "`timeout:`"),
        ("having", "having_passes_nothing", "n", "`having:` of step n"),
        ("unmatched", "nothing_matches", "pairs", "`on:` of step pairs"),
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
