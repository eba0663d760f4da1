"""Report of a run as lines: one every ten seconds, and a summary in columns."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import click

from headrace.cli.batch.batch_report import (
    BatchProgress,
    BatchResult,
    format_batch_progress,
    format_batch_summary,
)
from headrace.cli.errors import save_bug_report
from headrace.cli.findings_text import format_findings
from headrace.cli.formatting import align_columns, format_latency, format_metrics, format_rounds
from headrace.cli.pipeline_file import paint_problem
from headrace.cli.run_progress import JobProgress, PartProgress
from headrace.core.api.splits import Failure
from headrace.core.coordination.events import (
    ExternalWarning,
    JobEvent,
    JobRescaled,
    JobRestarting,
    JobResumed,
    RegionsRestarting,
    RequestFailed,
    SavepointTaken,
    StopRequested,
)
from headrace.core.coordination.messages import CheckpointCompleted, CheckpointFailed
from headrace.core.errors.problems import Problem
from headrace.core.errors.rendering import escape_unprintable, format_count, format_size
from headrace.core.job.job import JobOutcome
from headrace.core.job.statistics import format_time
from headrace.core.plan.nodes import Plan

if TYPE_CHECKING:
    from headrace.cli.job_diagnosis import MissingOutput

STOPPING_TEXT = "stopping; a second Ctrl-C stops at once"


INTERRUPTED_TEXT = "stopped at once"


NOTHING_WRITTEN_TEXT = "stopped: nothing was written"


LOST_TEXT = "output that was not written yet is lost"


RESTART_TEXT = "the same command starts from scratch"


SAME_FAILURE_TEXT = "the same failure again"


ALREADY_FINISHED_TEXT = "the job had finished before: nothing is left to do"


class TextReport:
    """Lines on stderr. When quiet, errors only."""

    interval_s = 10.0

    def __init__(self, pipeline: str, quiet: bool) -> None:
        self.pipeline = escape_unprintable(pipeline)
        self.is_quiet = quiet
        self._checkpoint: int | None = None
        """The newest checkpoint of the job."""
        self._own_checkpoint: CheckpointCompleted | None = None
        """The newest checkpoint, if it was taken in this run."""
        self._resume_command = SAME_COMMAND_TEXT
        """The command that resumes from the newest checkpoint."""
        self._last_failure: Failure | None = None

    def print_lines(self, text: str) -> None:
        """Print one or more lines."""
        click.echo(text, err=True)

    def report_problem(self, problem: Problem) -> None:
        """Print the problem as `validate` does."""
        if problem.severity == "error" or not self.is_quiet:
            self.print_lines(paint_problem(problem))

    def report_start(self, plan: Plan) -> None:
        """Print nothing: the first line reports progress."""

    def report_url(self, url: str, *, chosen: bool) -> None:
        """Print the URL; a port chosen by the system is printed even when quiet."""
        if chosen or not self.is_quiet:
            self.print_lines(f"metrics and health at {url}")

    def open_display(self) -> AbstractContextManager[object]:
        """Return a context without effect: lines need no setup."""
        return nullcontext()

    def report_progress(self, look: JobProgress) -> None:
        """Print a line of progress."""
        if not self.is_quiet:
            self.print_lines(format_progress(look, self._checkpoint_text))

    def report_missing_output(self, missing: MissingOutput) -> None:
        """Print why nothing is emitted; the same causes are reported once."""
        if not self.is_quiet:
            self.print_lines("\n".join(format_missing_output(missing)))

    def report_stages(self, look: BatchProgress) -> None:
        """Print a line of progress."""
        if not self.is_quiet:
            self.print_lines(format_batch_progress(look))

    @property
    def _checkpoint_text(self) -> str:
        """The newest checkpoint in words; empty if there is none."""
        if self._own_checkpoint is not None:
            return format_checkpoint(self._own_checkpoint)
        return "" if self._checkpoint is None else f"checkpoint {self._checkpoint}"

    def report_event(self, event: JobEvent) -> None:
        """Print a line for an event, except for completed checkpoints, which are many."""
        match event:
            case CheckpointCompleted(number):
                self._checkpoint, self._own_checkpoint = number, event
            case CheckpointFailed(number, why):
                self.print_lines(f"checkpoint {number} failed: {escape_unprintable(why)}")
            case JobResumed(number):
                self._checkpoint = number
                self._resume_command = (
                    SAME_COMMAND_TEXT if event.savepoint is None else WITHOUT_SAVEPOINT
                )
                if not self.is_quiet:
                    self.print_lines("\n".join(format_resumed(event)))
            case JobRestarting(failure, delay_s):
                self._print_restart(failure, delay_s, self._checkpoint)
            case RegionsRestarting(failure, delay_s, checkpoint, restarted, count):
                what = f" {restarted} of {format_count(count, 'subtask')}"
                self._print_restart(failure, delay_s, checkpoint, what)
            case StopRequested() | SavepointTaken() | JobRescaled() if not self.is_quiet:
                self.print_lines(format_request_done(event))
            case RequestFailed(what, why):
                self.print_lines(f"{what} failed: {escape_unprintable(why)}")
            case ExternalWarning(line):
                self.print_lines(escape_unprintable(line))

    def _print_restart(
        self, failure: Failure, delay_s: float, checkpoint: int | None, what: str = ""
    ) -> None:
        """Print the restart; the full failure only the first time."""
        whence = "" if checkpoint is None else f" from checkpoint {checkpoint}"
        restarting = f"restarting{what}{whence} in {delay_s:.1f} s"
        if failure == self._last_failure:
            self.print_lines(f"{SAME_FAILURE_TEXT}: {restarting}")
        else:
            self._last_failure = failure
            self._print_failure(failure)
            self.print_lines(restarting)

    def report_already_finished(self) -> None:
        """Print that the job had finished."""
        self.print_lines(ALREADY_FINISHED_TEXT)

    def report_stopping(self) -> None:
        """Print that the job is stopping."""
        if not self.is_quiet:
            self.print_lines(STOPPING_TEXT)

    def report_rejection(self, message: str, hint: str, status: int) -> None:
        """Print why nothing was read, and a hint."""
        lines = "\n".join(map(escape_unprintable, message.splitlines()))
        self.print_lines("\n".join([f"{self.pipeline}: {lines}", *_format_hint(hint)]))

    def report_failure(self, failure: Failure) -> None:
        """Print the failure, its location and a hint, unless it was printed before."""
        if failure == self._last_failure:
            self.print_lines(f"{SAME_FAILURE_TEXT}: giving up")
        else:
            self._print_failure(failure)

    def _print_failure(self, failure: Failure) -> None:
        """Print a failure; for a bug in headrace, the file with its traceback."""
        if failure.traceback:
            what = f"{failure.message.splitlines()[0]} in {failure.step}"
            self.print_lines(save_bug_report(what, failure.traceback))
        else:
            head = (
                f"{self.pipeline}: {format_location(failure)}: "
                f"{escape_unprintable(failure.message)}"
            )
            self.print_lines("\n".join([head, *_format_hint(failure.hint)]))

    def report_interrupted(self, *, is_resumable: bool) -> None:
        """Print what is lost, or how to resume."""
        self.print_lines(self.format_interrupted(is_resumable=is_resumable))

    def format_interrupted(self, *, is_resumable: bool) -> str:
        """Say what is lost, or how to resume."""
        if not is_resumable:
            then = LOST_TEXT
        elif self._checkpoint is None:
            then = RESTART_TEXT
        else:
            then = f"{self._resume_command} resumes from checkpoint {self._checkpoint}"
        return f"{INTERRUPTED_TEXT}: {then}"

    def report_summary(self, outcome: JobOutcome, look: JobProgress) -> None:
        """Print the parts in columns; a failure was printed before."""
        if not self.is_quiet and not outcome.failure:
            self.print_lines("\n".join(format_summary(outcome, look)))
        if outcome.checkpoint is not None and (outcome.failure or not self.is_quiet):
            again = (
                f"{self._resume_command}{' with --resume-drained' if outcome.is_drained else ''}"
            )
            self.print_lines(f"{again} resumes from checkpoint {outcome.checkpoint}; {FRESH_TEXT}")

    def report_batch_done(self, done: BatchResult) -> None:
        """Print sources and sinks in columns."""
        if not self.is_quiet:
            self.print_lines("\n".join(format_batch_summary(done)))

    def report_nothing_written(self) -> None:
        """Print that nothing was written."""
        self.print_lines(NOTHING_WRITTEN_TEXT)


def format_missing_output(missing: MissingOutput) -> Iterable[str]:
    """Say that nothing is emitted, and why."""
    yield f"nothing was emitted for {missing.seconds:.0f} s, though rows come in:"
    findings = [each.to_document() for each in missing.findings]
    for line in format_findings(findings, format_time(missing.now_us) or ""):
        yield escape_unprintable(line)


FRESH_TEXT = "--fresh starts from scratch"


SAVEPOINT_AGAIN_TEXT = (
    "the same command goes back to the savepoint: leave out --from-savepoint next time"
)


SAME_COMMAND_TEXT = "the same command"


WITHOUT_SAVEPOINT = "the command without --from-savepoint"


def format_resumed(resumed: JobResumed) -> Iterable[str]:
    """Describe what a job has resumed from.

    >>> sources = (("orders", "in/a.jsonl from 12"),)
    >>> list(format_resumed(JobResumed(7, "2026-01-31T08:01:10Z", sources)))
    ['resumed from checkpoint 7 of 2026-01-31T08:01:10Z', '  orders: in/a.jsonl from 12']
    """
    if resumed.killed_process:
        yield format_killed(resumed.killed_process)
    whence = f"checkpoint {resumed.number}"
    if resumed.savepoint is not None:
        whence = f"savepoint {escape_unprintable(resumed.savepoint)}"
    yield f"resumed from {whence} of {resumed.taken_at}"
    for source, place in resumed.sources:
        yield f"  {source}: {escape_unprintable(place)}"
    for change in resumed.changes:
        yield f"  {escape_unprintable(change)}"
    if resumed.removed_checkpoints or resumed.repeated_rows:
        yield f"  {_format_removed_checkpoints(resumed)}"
    if resumed.dropped_checkpoints:
        yield f"  {_format_removed_job(resumed.dropped_checkpoints)}"
    if resumed.savepoint is not None:
        yield f"  {SAVEPOINT_AGAIN_TEXT}"


def format_killed(process: str) -> str:
    """Describe how the previous run ended: its exit status is known to nobody any more.

    >>> format_killed("process 7 on pegasus")
    'the previous run was killed or left by os._exit: process 7 on pegasus'
    """
    return f"the previous run was killed or left by os._exit: {escape_unprintable(process)}"


def format_request_done(event: StopRequested | SavepointTaken | JobRescaled) -> str:
    """Describe what was done on a client's request.

    >>> format_request_done(JobRescaled({"totals": 3, "out": 2}, 0.318))
    'rescaled: totals 3, out 2; paused for 0.3 s'
    >>> format_request_done(JobRescaled({"totals": 2}, 1.25, 1))
    'rescaled: 1 worker, totals 2; paused for 1.2 s'
    """
    match event:
        case StopRequested(is_immediate=True):
            return "headrace stop: stopping at once"
        case StopRequested(drain):
            return "headrace stop: draining" if drain else "headrace stop: stopping"
        case SavepointTaken(number, path):
            return f"savepoint of checkpoint {number}: {escape_unprintable(path)}"
        case JobRescaled(parallelism, stood_still_s, workers):
            changes = [] if workers is None else [format_count(workers, "worker")]
            changes += [f"{name} {number}" for name, number in parallelism.items()]
            return f"rescaled: {', '.join(changes)}; paused for {stood_still_s:.1f} s"


def _format_removed_job(checkpoints: int) -> str:
    """Describe the removal of another job from the same home.

    >>> _format_removed_job(3)
    'this is a new job: the 3 checkpoints of the previous job are removed'
    """
    those = f"the {checkpoints} checkpoints" if checkpoints > 1 else "the checkpoint"
    verb = "are" if checkpoints > 1 else "is"
    return f"this is a new job: {those} of the previous job {verb} removed"


def _format_removed_checkpoints(resumed: JobResumed) -> str:
    """Describe the effects of resuming from an older checkpoint.

    >>> repeated = (("out", 1200), ("late", 1))
    >>> _format_removed_checkpoints(JobResumed(5, "", (), None, (), (6, 7), repeated))
    'checkpoints 6, 7 are removed; rows are written a second time: up to 1,200 of out, 1 of late'
    >>> _format_removed_checkpoints(JobResumed(5, "", (), removed_checkpoints=(6,)))
    'checkpoint 6 is removed'
    >>> _format_removed_checkpoints(JobResumed(5, "", (), repeated_rows=(("out", 7),)))
    'rows are written a second time: up to 7 of out'
    """
    rows = ", ".join(f"{rows:,} of {sink}" for sink, rows in resumed.repeated_rows)
    again = f"rows are written a second time: up to {rows}" if rows else ""
    if not resumed.removed_checkpoints:
        return again
    numbers = ", ".join(map(str, resumed.removed_checkpoints))
    removed = f"checkpoint{'s' * (len(resumed.removed_checkpoints) > 1)} {numbers}"
    removed = f"{removed} {'are' if len(resumed.removed_checkpoints) > 1 else 'is'} removed"
    return f"{removed}; {again}" if again else removed


def format_location(failure: Failure) -> str:
    """Describe where a job failed.

    >>> format_location(Failure("m", "orders > clean", "in/a.jsonl", 120))
    'orders > clean: in/a.jsonl at 120'
    """
    if not failure.split:
        return failure.step
    at = f" at {failure.position}" if failure.position is not None else ""
    return f"{failure.step}: {escape_unprintable(failure.split)}{at}"


def format_checkpoint(event: CheckpointCompleted) -> str:
    """Describe a checkpoint with its cost.

    >>> format_checkpoint(CheckpointCompleted(12, 0.31, 2 << 20))
    'checkpoint 12 (0.3 s, 2.0 MB)'
    """
    return f"checkpoint {event.number} ({event.seconds:.1f} s, {format_size(event.bytes)})"


def format_progress(look: JobProgress, checkpoint: str = "") -> str:
    """Format the progress as a line."""
    parts = [
        f"{look.seconds:.0f} s",
        f"in {look.rows_in:,} ({look.in_per_s:,.0f}/s)",
        f"out {look.rows_out:,} ({look.out_per_s:,.0f}/s)",
    ]
    if look.bad_rows:
        parts.append(f"bad {look.bad_rows:,}")
    if look.late_rows:
        parts.append(f"late {look.late_rows:,}")
    if look.state_bytes:
        parts.append(f"state {format_size(look.state_bytes)}")
    if checkpoint:
        parts.append(checkpoint)
    if slowed := look.backpressured_parts:
        parts.append(f"backpressure {slowed[0].backpressure} at {slowed[0].name}")
    return "  ".join(parts)


def format_summary(outcome: JobOutcome, look: JobProgress) -> Iterable[str]:
    """Format the end of a run: one row per part, and a total."""
    late = () if look.late_rows is None else ("late",)
    heads = ("", "rows in", "rows out", "bad", *late, "rows/s")
    yield from align_columns([heads, *(_format_part(part, look) for part in look.parts)])
    how = "stopped after" if outcome.is_stopped else "done in"
    rate = f"{look.in_per_s:,.0f} rows/s"
    yield f"{how} {look.seconds:.1f} s: {format_count(look.rows_in, 'row')} in, {rate}"
    if look.unfilled_rows:
        yield f"{format_count(look.unfilled_rows, 'row')} in count windows that never filled"
    for part in look.parts:
        if metrics := part.counts.metrics.list_all():
            yield format_metrics(part.name, metrics)
        yield from format_rounds(part.name, part.counts.metrics.rounds)
        for source, latency in part.counts.summarize_latencies().items():
            yield format_latency(source, part.name, latency.to_document())
    if look.endless_loops:
        yield from format_findings([each.to_document() for each in look.endless_loops], "")


def _format_part(part: PartProgress, look: JobProgress) -> tuple[str, ...]:
    counts = part.counts
    late = () if look.late_rows is None else (counts.late_rows,)
    numbers = (counts.rows_in, counts.rows_out, counts.bad_rows, *late, round(part.in_per_s))
    return (part.name, *("" if number is None else f"{number:,}" for number in numbers))


def _format_hint(hint: str) -> list[str]:
    return [f"      {escape_unprintable(hint)}"] if hint else []
