"""`headrace run --batch`: rejections before Spark is started, and the reports of a batch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from headrace.cli.batch.batch_report import (
    BatchProgress,
    BatchResult,
    build_batch_document,
    build_batch_table,
    format_batch_progress,
)
from headrace.cli.batch.options import REJECTED_OPTIONS
from headrace.cli.run_json import JsonReport
from headrace.cli.run_text import TextReport
from headrace.core.api.user_metrics import MetricValues, RoundFigures
from headrace.core.spark.sources import SourceCounts
from headrace.core.spark.spark_jobs import SparkStage
from tests.support.cli.command_line import Headrace

PIPELINE = """\
name: small
sources:
  ids: {generate: {rows: 3, columns: {x: id}}}
sinks:
  out: {from: ids, files: {path: out}}
"""
GROUPED = SparkStage(3, "sink out", 20, 5, 2, 0, 1200, 0)
READ = SparkStage(2, "sink out", 4, 4, 0, 1, 0, 1200, ended=True)


@pytest.fixture
def pipeline(tmp_path: Path) -> str:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    return "p.yaml"


@pytest.mark.parametrize("name", sorted(REJECTED_OPTIONS))
def test_what_says_nothing_to_a_batch_is_refused_with_the_reason(
    headrace: Headrace, pipeline: str, name: str
) -> None:
    option = f"--{name.replace('_', '-')}"
    value = [] if name in FLAGS else ["1"]
    ran = headrace("run", pipeline, "--batch", option, *value)
    assert ran.status == 2
    assert f"{option} cannot be combined with --batch: {REJECTED_OPTIONS[name]}" in ran.err


FLAGS = {"allow_lost_state", "resume_drained", "take_over"}


@pytest.mark.parametrize("arguments", [("--master", "yarn"), ("--conf", "spark.x=1")])
def test_what_is_for_spark_wants_batch(
    headrace: Headrace, pipeline: str, arguments: tuple[str, str]
) -> None:
    ran = headrace("run", pipeline, *arguments)
    assert ran.status == 2
    assert f"{arguments[0]} is for Spark: it needs --batch" in ran.err


def test_what_is_missing_is_named_with_the_way_to_install_it(
    headrace: Headrace, pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    ran = headrace("run", pipeline, "--batch")
    assert ran.status == 2
    assert "--batch runs on Spark: pyspark is not installed" in ran.err
    assert "pip install 'headrace[batch]'" in ran.err


def test_a_master_that_does_not_answer_is_a_failure(
    headrace: Headrace, pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With a session in this process, which tests may have left, no master is contacted.
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    ran = headrace("run", pipeline, "--batch", "--master", "spark://127.0.0.1:1", "--log", "json")
    assert ran.status == 1
    told = json.loads(ran.err.splitlines()[-1])
    assert (told["event"], told["exit_status"]) == ("failure", 1)
    assert "127.0.0.1:1: connection refused" in told["message"]


def test_a_line_tells_of_the_stages_at_work() -> None:
    line = format_batch_progress(BatchProgress(12.4, (READ, GROUPED)))
    assert line == "12 s  sink out, stage 3: 5 of 20 tasks"


def test_the_progress_has_the_last_round_of_each_loop() -> None:
    metrics = MetricValues({"rounds": 11}, {"round_seconds": 0.41, "round_rows_changed": 1340})
    look = BatchProgress(12.4, (GROUPED,), {"ranks": metrics, "tries": MetricValues()})
    shown = "loop ranks: round 11 changed 1,340 rows in 0.4 s"
    assert format_batch_progress(look) == f"12 s  sink out, stage 3: 5 of 20 tasks  {shown}"
    assert build_batch_table(look).caption == shown
    assert build_batch_document(look)["metrics"] == {
        "ranks": {"rounds": 11, "round_seconds": 0.41, "round_rows_changed": 1340},
        "tries": {},
    }


def test_a_cluster_without_free_executors_is_reported_after_a_while() -> None:
    stage = SparkStage(0, "sink out", 4, 0, 0, 0, 0, 0)
    assert (
        format_batch_progress(BatchProgress(10, (stage,)))
        == "10 s  sink out, stage 0: 0 of 4 tasks"
    )
    assert "does the cluster have free cores and memory?" in format_batch_progress(
        BatchProgress(40, (stage,))
    )


def test_a_table_tells_of_all_stages() -> None:
    console = Console(width=100, color_system=None)
    with console.capture() as shown:
        console.print(build_batch_table(BatchProgress(12.4, (READ, GROUPED))))
    head, *rows = shown.get().splitlines()
    assert head.split() == "12 s tasks done running failed rows in rows out".split()
    assert rows[0].split() == "sink out, stage 2 4 4 0 1 1,200".split()
    assert rows[1].split() == "sink out, stage 3 20 5 2 0 1,200".split()


def test_lines_and_objects_tell_the_same_of_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    rounds = [RoundFigures(1, 12, 0.5), RoundFigures(2, None, 0.25)]
    metrics = {"ranks": MetricValues({"rounds": 2}, {"round_seconds": 0.25}, rounds)}
    counts = {"ids": SourceCounts(1199, 1)}
    done = BatchResult(3.21, counts, {"out": 1200, "late": 0}, metrics)
    TextReport("p.yaml", quiet=False).report_batch_done(done)
    assert capsys.readouterr().err.splitlines() == [
        "      rows in  rows out  bad",
        "ids     1,200     1,199    1",
        "out     1,200     1,200    0",
        "late        0         0    0",
        "metrics of ranks: rounds 2, round_seconds 0.25",
        "rounds of ranks  rows changed  seconds",
        "              1            12    0.500",
        "              2                  0.250",
        "done in 3.2 s: 1,200 rows in, 374 rows/s",
    ]
    JsonReport("p.yaml", quiet=False).report_batch_done(done)
    told = json.loads(capsys.readouterr().err)
    assert (told["status"], told["rows_out"], told["bad"]) == ("done", 1200, 1)
    assert told["parts"]["ids"] == {"rows_in": 1200, "rows_out": 1199, "bad": 1}
    assert told["metrics"] == {"ranks": {"rounds": 2, "round_seconds": 0.25}}
    first = {"round": 1, "rows_changed": 12, "seconds": 0.5}
    assert told["rounds"] == {"ranks": [first, {"round": 2, "seconds": 0.25}]}
