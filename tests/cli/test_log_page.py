"""docs/cli.md names every event of `--log json` and every field that one has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.write import page
from headrace.cli.run_json import JsonReport
from headrace.cli.run_progress import ProgressMeter
from headrace.connectors.registry import REGISTRY
from headrace.core.api.splits import Failure
from headrace.core.api.user_metrics import MetricValues
from headrace.core.coordination.events import (
    ExternalWarning,
    JobRescaled,
    JobRestarting,
    JobResumed,
    RegionsRestarted,
    RequestFailed,
    SavepointTaken,
    StopRequested,
)
from headrace.core.coordination.messages import CheckpointCompleted, CheckpointFailed
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.plan.plan_assembly import build_plan
from headrace.core.worker.statistics import PartCounts
from tests.support.cli.command_line import Headrace

GOOD = """name: good
sources: {s: {generate: {rows: 3, columns: {x: id}}}}
sinks: {o: {from: s, files: {path: out}}}
"""
BAD = """name: bad
sources: {s: {files: {path: a.jsonl}, schema: {x: bigint}}}
sinks: {o: {from: s, files: {path: out2}}}
settings: {restart: {first: 1ms}, checkpoint: {every: 1ms}}
"""


def fields(value: object) -> Iterator[str]:
    """The names of all fields within a value; a user's own names are none."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield str(name)
            users = name in ("parts", "sources", "again", "parallelism") and isinstance(inner, dict)
            for part in inner.values() if users else [inner]:
                yield from fields(part)


def known() -> set[str]:
    """Return the words of the page between backquotes."""
    section = page("cli.md").partition("### For programs")[2].partition("##")[0]
    return set(re.findall(r"`(\w+)`", section))


def test_of_runs_that_end_in_every_way(headrace: Headrace) -> None:
    Path("good.yaml").write_text(GOOD)
    Path("bad.yaml").write_text(BAD)
    Path("a.jsonl").write_text("oops\n")
    lines = [
        *headrace("run", "good.yaml", "--log", "json").err.splitlines(),
        *headrace("run", "good.yaml", "--log", "json").err.splitlines(),  # not into this folder
        *headrace("run", "bad.yaml", "--log", "json").err.splitlines(),
        *headrace("run", "bad.yaml", "--log", "json", "--set", "sinks.o.fro=s").err.splitlines(),
    ]
    events = [json.loads(line) for line in lines]
    named = known()
    assert {"start", "summary", "failure", "error", "restarting", "checkpoint"} <= {
        event["event"] for event in events
    }
    assert {event["event"] for event in events} <= named
    assert set().union(*map(fields, events)) <= named
    assert {event["status"] for event in events if event["event"] == "summary"} <= named


def test_of_what_happens_to_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    report = JsonReport("p.yaml", quiet=False)
    report.report_event(
        JobResumed(1, "2026-01-31T08:01:10Z", (("orders", "a from 1"),), "process 1")
    )
    report.report_event(CheckpointCompleted(2, 0.1, 5))
    report.report_event(CheckpointFailed(3, "no space left on device"))
    report.report_event(JobRestarting(Failure("m", "s"), 1.0))
    report.report_event(RegionsRestarted(2, 1))
    report.report_event(StopRequested(is_drain=True))
    report.report_event(SavepointTaken(2, "savepoints/s"))
    report.report_event(JobRescaled({"orders": 2}, 0.1))
    report.report_event(RequestFailed("savepoint", "no space left on device"))
    report.report_event(ExternalWarning("in: no broker has answered for 5 s"))
    report.report_url("http://127.0.0.1:9100", chosen=False)
    report.report_already_finished()
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in told[:-1]] == [
        *("resumed", "checkpoint", "checkpoint_failed", "restarting", "region_restarted"),
        *("asked", "savepoint", "rescaled", "not_done", "notice", "serving"),
    ]
    assert {event["event"] for event in told} <= known()
    assert set().union(*map(fields, told)) <= known()
    assert told[-1]["status"] in known()


def test_of_what_windows_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_text(GOOD)
    plan, _ = build_plan(load_pipeline(tmp_path / "p.yaml", REGISTRY))
    assert plan is not None
    counts = {
        part.name: PartCounts(
            1, 1, 0, late_rows=1, unfilled_rows=1, watermark_us=0, metrics=MetricValues({"a": 1})
        )
        for part in plan
    }
    JsonReport("p.yaml", quiet=False).report_progress(ProgressMeter().sample(plan, counts, 1.0))
    (line,) = capsys.readouterr().err.splitlines()
    told = set(fields(json.loads(line)))
    assert {"late", "unfilled", "watermark", "metrics"} <= told
    assert told - {"a"} <= known()
