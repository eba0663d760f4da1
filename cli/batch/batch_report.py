"""Reports of a batch while it runs and at its end: as a line, a table or a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from headrace.core.api.user_metrics import ROUND_ROWS_CHANGED, ROUND_SECONDS, ROUNDS
from headrace.core.errors.rendering import format_count
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from rich.table import Table

    from headrace.core.api.user_metrics import MetricValues
    from headrace.core.spark.sources import SourceCounts
    from headrace.core.spark.spark_jobs import SparkStage

STARTING_TEXT = "Spark is starting"
NO_STAGES_TEXT = "Spark has no stages to show yet"
NO_EXECUTOR_TEXT = "no executor has taken a task: does the cluster have free cores and memory?"
EXECUTOR_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The progress of a batch: the stages seen so far, or None while Spark starts."""

    seconds: float
    stages: Sequence[SparkStage] | None
    loops: Mapping[str, MetricValues] = field(default_factory=dict)
    """The metrics of loops so far, by step."""

    @property
    def running_stages(self) -> Sequence[SparkStage]:
        """The stages that run now."""
        return [stage for stage in self.stages or () if not stage.ended]

    @property
    def remark(self) -> str:
        """A remark in addition to the stages; empty if there is none."""
        if self.stages is None:
            return STARTING_TEXT
        if not self.stages:
            return NO_STAGES_TEXT
        begun = any(stage.running or stage.done or stage.ended for stage in self.stages)
        if not begun and self.seconds >= EXECUTOR_TIMEOUT_S:
            return NO_EXECUTOR_TEXT
        return "; ".join(filter(None, map(describe_last_round, self.loops, self.loops.values())))


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a batch: counts of sources and sinks, and the duration."""

    seconds: float
    source_counts: Mapping[str, SourceCounts]
    sink_rows: Mapping[str, int]
    metrics: Mapping[str, MetricValues] = field(default_factory=dict)
    """The metrics of loops, by step."""

    @property
    def rows_in(self) -> int:
        """Rows of all sources, including bad records."""
        return sum(sum(each) for each in self.source_counts.values())

    @property
    def rows_out(self) -> int:
        """Rows of all sinks."""
        return sum(self.sink_rows.values())

    def list_parts(self) -> Iterable[tuple[str, int, int, int]]:
        """Yield name, rows in, rows out and bad records of each source and sink."""
        for name, (rows, bad) in self.source_counts.items():
            yield name, rows + bad, rows, bad
        for name, rows in self.sink_rows.items():
            yield name, rows, rows, 0


def format_batch_progress(look: BatchProgress) -> str:
    """Format the progress as a line.

    >>> format_batch_progress(BatchProgress(10.2, None))
    '10 s  Spark is starting'
    """
    parts = [f"{look.seconds:.0f} s"]
    for stage in look.running_stages:
        failed = f", {stage.failed:,} failed" if stage.failed else ""
        parts.append(
            f"{describe_stage(stage)}: {stage.done:,} of "
            f"{format_count(stage.tasks, 'task')}{failed}"
        )
    return "  ".join(filter(None, (*parts, look.remark)))


def describe_stage(stage: SparkStage) -> str:
    """Describe a stage by its job and number."""
    return f"{stage.job or 'Spark'}, stage {stage.number}"


def describe_last_round(loop: str, metrics: MetricValues) -> str:
    """Describe the last round of a loop that has ended; empty if none has.

    >>> from headrace.core.api.user_metrics import MetricValues
    >>> figures = {"round_seconds": 0.41, "round_rows_changed": 1_340}
    >>> describe_last_round("ranks", MetricValues({"rounds": 11}, figures))
    'loop ranks: round 11 changed 1,340 rows in 0.4 s'
    """
    figures = metrics.list_all()
    if (seconds := figures.get(ROUND_SECONDS)) is None:
        return ""
    changed = figures.get(ROUND_ROWS_CHANGED)
    did = "took" if changed is None else f"changed {format_count(int(changed), 'row')} in"
    return f"loop {loop}: round {figures[ROUNDS]:,} {did} {seconds:,.1f} s"


def build_batch_table(look: BatchProgress) -> Table:
    """Build a table with one row per stage."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", caption_justify="left")
    table.add_column(f"{look.seconds:.0f} s", no_wrap=True)
    for head in ("tasks", "done", "running", "failed", "rows in", "rows out"):
        table.add_column(head, justify="right", no_wrap=True)
    for stage in look.stages or ():
        numbers = [stage.tasks, stage.done, stage.running, stage.failed]
        # Spark counts only rows exchanged between stages, not those of sources and sinks.
        rows = [stage.rows_in or None, stage.rows_out or None]
        cells = ["" if number is None else f"{number:,}" for number in [*numbers, *rows]]
        table.add_row(describe_stage(stage), *cells, style="dim" if stage.ended else None)
    table.caption = look.remark or None
    return table


def build_batch_document(look: BatchProgress) -> Mapping[str, object]:
    """Return the progress as plain data."""
    stages = None if look.stages is None else [stage.document() for stage in look.stages]
    metrics = {name: each.list_all() for name, each in look.loops.items()}
    shown = {"metrics": metrics} if metrics else {}
    return {"seconds": round(look.seconds, 3), "stages": stages, **shown}


def format_batch_summary(done: BatchResult) -> Iterable[str]:
    """Format the result: one row per source and sink, and a total."""
    from headrace.cli.formatting import align_columns, format_metrics, format_rounds

    rows = [(name, *(f"{number:,}" for number in numbers)) for name, *numbers in done.list_parts()]
    yield from align_columns([("", "rows in", "rows out", "bad"), *rows])
    for name, metrics in done.metrics.items():
        yield format_metrics(name, metrics.list_all())
        yield from format_rounds(name, metrics.rounds)
    rate = f"{done.rows_in / max(done.seconds, 1e-9):,.0f} rows/s"
    yield f"done in {done.seconds:.1f} s: {format_count(done.rows_in, 'row')} in, {rate}"


def build_batch_summary(done: BatchResult) -> Mapping[str, object]:
    """Return the result as plain data."""
    parts = {
        name: {"rows_in": rows_in, "rows_out": rows_out, "bad": bad}
        for name, rows_in, rows_out, bad in done.list_parts()
    }
    metrics = {name: each.list_all() for name, each in done.metrics.items()}
    rounds = {name: each.list_rounds() for name, each in done.metrics.items() if each.rounds}
    return {
        "seconds": round(done.seconds, 3),
        "rows_in": done.rows_in,
        "rows_out": done.rows_out,
        "bad": sum(bad for _, bad in done.source_counts.values()),
        "parts": parts,
        **({"metrics": metrics} if metrics else {}),
        **({"rounds": rounds} if rounds else {}),
    }
