"""Reports of a run: literal counts in, literal words out."""

from os import terminal_size
from pathlib import Path

import pytest

from headrace.cli.run_live import build_progress_table, render_table
from headrace.cli.run_progress import JobProgress, ProgressMeter
from headrace.cli.run_text import TextReport, format_progress, format_summary
from headrace.connectors.registry import REGISTRY
from headrace.core.api.splits import Failure
from headrace.core.api.state_sizes import StateSize
from headrace.core.coordination.messages import CheckpointCompleted
from headrace.core.job.job import JobOutcome
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.plan.nodes import Plan
from headrace.core.plan.plan_assembly import build_plan
from headrace.core.worker.statistics import PartCounts

TEXT = """\
name: t
settings: {parallelism: 2}
sources: {orders: {generate: {rows: 1, columns: {x: id}}}}
steps: {some: {from: orders, where: x > 0}}
sinks: {out: {from: some, console: {}}}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    file = tmp_path / "p.yaml"
    file.write_text(TEXT)
    plan, _ = build_plan(load_pipeline(file, REGISTRY))
    assert plan is not None
    return plan


def counts(rows_in: int, rows_out: int, bad: int, blocked_s: float) -> dict[str, PartCounts]:
    return {
        "orders": PartCounts(rows_in + bad, rows_in, bad),
        "some": PartCounts(rows_in, rows_out, 0, blocked_s),
        "out": PartCounts(rows_out, rows_out),
    }


@pytest.fixture
def look(plan: Plan) -> JobProgress:
    """The second look, ten seconds after the first."""
    progress = ProgressMeter()
    progress.sample(plan, counts(1000, 500, 0, 1.0), 10.0)
    return progress.sample(plan, counts(5000, 700, 20, 13.0), 20.0)


def test_rates_are_those_since_the_last_look(look: JobProgress) -> None:
    orders, some, out = look.parts
    assert (orders.in_per_s, some.in_per_s, some.out_per_s, out.in_per_s) == (402, 400, 20, 20)
    assert (look.rows_in, look.rows_out, look.bad_rows) == (5020, 700, 20)


def test_backpressure_is_the_share_of_time_that_a_subtask_waits(look: JobProgress) -> None:
    assert [round(part.wait_share, 9) for part in look.parts] == [0, 0.6, 0]
    assert [part.backpressure for part in look.parts] == ["ok", "high", "ok"]


def test_a_line_names_the_part_that_waits_most(look: JobProgress) -> None:
    assert format_progress(look) == (
        "20 s  in 5,020 (402/s)  out 700 (20/s)  bad 20  backpressure high at some"
    )


def test_a_line_leaves_out_what_is_not_there(plan: Plan) -> None:
    line = format_progress(ProgressMeter().sample(plan, counts(10, 5, 0, 0.0), 10.0))
    assert line == "10 s  in 10 (1/s)  out 5 (0/s)"


def test_state_size_and_newest_checkpoint_are_reported(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = counts(10, 5, 0, 0.0)
    seen["some"].state = StateSize(3, 2 << 20, 1 << 20)
    look = ProgressMeter().sample(plan, seen, 10.0)
    report = TextReport("p.yaml", quiet=False)
    report.report_progress(look)
    report.report_event(CheckpointCompleted(7, 0.26, 1536))
    report.report_progress(look)
    assert capsys.readouterr().err.splitlines() == [
        "10 s  in 10 (1/s)  out 5 (0/s)  state 3.0 MB",
        "10 s  in 10 (1/s)  out 5 (0/s)  state 3.0 MB  checkpoint 7 (0.3 s, 1.5 KB)",
    ]
    table = build_progress_table(look, "checkpoint 7 (0.3 s, 1.5 KB)")
    said = render_table(table, terminal_size((80, 24)))
    assert "state 3.0 MB   checkpoint 7 (0.3 s, 1.5 KB)" in said


def test_the_summary_stands_in_columns(plan: Plan) -> None:
    whole = counts(1_000_000, 5, 12, 0.0)
    outcome = JobOutcome(None, False, whole, 4.0)
    assert list(format_summary(outcome, ProgressMeter().sample(plan, whole, 4.0))) == [
        "          rows in   rows out  bad   rows/s",
        "orders  1,000,012  1,000,000   12  250,003",
        "some    1,000,000          5    0  250,000",
        "out             5          5    0        1",
        "done in 4.0 s: 1,000,012 rows in, 250,003 rows/s",
    ]


def test_a_defect_is_one_line_and_its_traceback_is_saved(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    report = TextReport("p.yaml", quiet=True)
    report.report_failure(Failure("KeyError: 'x'", "some", traceback="Traceback: where it was"))
    (kept,) = tmp_path.glob("headrace-defect-*.txt")
    assert "Traceback: where it was" in kept.read_text()
    said = capsys.readouterr().err
    assert said == (
        "headrace: a bug in headrace, not in your files (KeyError: 'x' in some); "
        f"please report it with {kept}\n"
    )


def test_nothing_that_a_record_holds_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    failure = Failure("bad record: \x1b[2J\na", "orders", "in/\x1b.jsonl", 3, "look at \x07")
    TextReport("\x1b.yaml", quiet=True).report_failure(failure)
    assert capsys.readouterr().err == (
        "\\x1b.yaml: orders: in/\\x1b.jsonl at 3: bad record: \\x1b[2J a\n      look at \\x07\n"
    )
