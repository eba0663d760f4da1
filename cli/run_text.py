"""Report of a run as lines: one every ten seconds, and a summary in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

import click

from headrace.cli.batch.told import BatchDone, BatchLook, batch_line, batch_summary_lines
from headrace.cli.failures import keep_defect
from headrace.cli.pipelines import painted
from headrace.cli.run_progress import Look, PartLook
from headrace.core.job import Outcome
from headrace.core.messages import CheckpointFailed, CheckpointTaken, Failure
from headrace.core.news import (
    Asked,
    News,
    NotDone,
    Noticed,
    Rescaled,
    Restarting,
    Resumed,
    Savepointed,
)
from headrace.core.plan import Plan
from headrace.core.problems import Problem
from headrace.core.rendering import count, printable, size

STOPPING = "stopping; a second Ctrl-C stops at once"
INTERRUPTED = "stopped at once"
NOTHING_WRITTEN = "stopped: nothing was written"
LOST = "output that was not written yet is lost"
BEGINS = "the same command starts from scratch"
SAME = "the same failure again"
HAD_FINISHED = "the job had finished when the previous run was killed: nothing is left to do"


class TextReport:
    """Lines on stderr. When quiet, errors only."""

    every_s = 10.0

    def __init__(self, pipeline: str, quiet: bool) -> None:
        self.pipeline = printable(pipeline)
        self.quiet = quiet
        self._checkpoint: int | None = None
        """The newest checkpoint of the job."""
        self._taken: CheckpointTaken | None = None
        """The newest checkpoint, if it was taken in this run."""
        self._command = SAME_COMMAND
        """The command that resumes from the newest checkpoint."""
        self._told: Failure | None = None

    def say(self, text: str) -> None:
        """Print one or more lines."""
        click.echo(text, err=True)

    def problem(self, problem: Problem) -> None:
        """Print the problem as `validate` does."""
        if problem.severity == "error" or not self.quiet:
            self.say(painted(problem))

    def start(self, plan: Plan) -> None:
        """Print nothing: the first line reports progress."""

    def serving(self, url: str, *, chosen: bool) -> None:
        """Print the URL; a port chosen by the system is printed even when quiet."""
        if chosen or not self.quiet:
            self.say(f"metrics and health at {url}")

    def showing(self) -> AbstractContextManager[object]:
        """Return a context without effect: lines need no setup."""
        return nullcontext()

    def progress(self, look: Look) -> None:
        """Print a line of progress."""
        if not self.quiet:
            self.say(progress_line(look, self._last))

    def stages(self, look: BatchLook) -> None:
        """Print a line of progress."""
        if not self.quiet:
            self.say(batch_line(look))

    @property
    def _last(self) -> str:
        """The newest checkpoint in words; empty if there is none."""
        if self._taken is not None:
            return checkpoint_said(self._taken)
        return "" if self._checkpoint is None else f"checkpoint {self._checkpoint}"

    def news(self, news: News) -> None:
        """Print a line for an event, except for completed checkpoints, which are many."""
        match news:
            case CheckpointTaken(number):
                self._checkpoint, self._taken = number, news
            case CheckpointFailed(number, why):
                self.say(f"checkpoint {number} failed: {printable(why)}")
            case Resumed(number):
                self._checkpoint = number
                self._command = SAME_COMMAND if news.savepoint is None else WITHOUT
                if not self.quiet:
                    self.say("\n".join(resumed_lines(news)))
            case Restarting(failure, delay_s):
                self._restarting(failure, delay_s)
            case Asked() | Savepointed() | Rescaled() if not self.quiet:
                self.say(done_line(news))
            case NotDone(what, why):
                self.say(f"{what} failed: {printable(why)}")
            case Noticed(line):
                self.say(printable(line))

    def _restarting(self, failure: Failure, delay_s: float) -> None:
        """Print the restart; the full failure only the first time."""
        whence = "" if self._checkpoint is None else f" from checkpoint {self._checkpoint}"
        restarting = f"restarting{whence} in {delay_s:.1f} s"
        if failure == self._told:
            self.say(f"{SAME}: {restarting}")
        else:
            self._told = failure
            self._failed(failure)
            self.say(restarting)

    def had_finished(self) -> None:
        """Print that the job had finished."""
        self.say(HAD_FINISHED)

    def stopping(self) -> None:
        """Print that the job is stopping."""
        if not self.quiet:
            self.say(STOPPING)

    def refusal(self, message: str, hint: str, status: int) -> None:
        """Print why nothing was read, and a hint."""
        lines = "\n".join(map(printable, message.splitlines()))
        self.say("\n".join([f"{self.pipeline}: {lines}", *_hints(hint)]))

    def failure(self, failure: Failure) -> None:
        """Print the failure, its location and a hint, unless it was printed before."""
        if failure == self._told:
            self.say(f"{SAME}: giving up")
        else:
            self._failed(failure)

    def _failed(self, failure: Failure) -> None:
        """Print a failure; for a bug in headrace, the file with its traceback."""
        if failure.defect:
            what = f"{failure.message.splitlines()[0]} in {failure.step}"
            self.say(keep_defect(what, failure.defect))
        else:
            head = f"{self.pipeline}: {place(failure)}: {printable(failure.message)}"
            self.say("\n".join([head, *_hints(failure.hint)]))

    def interrupted(self, *, kept: bool) -> None:
        """Print what is lost, or how to resume."""
        if not kept:
            then = LOST
        elif self._checkpoint is None:
            then = BEGINS
        else:
            then = f"{self._command} resumes from checkpoint {self._checkpoint}"
        self.say(f"{INTERRUPTED}: {then}")

    def summary(self, outcome: Outcome, look: Look) -> None:
        """Print the parts in columns; a failure was printed before."""
        if not self.quiet and not outcome.failure:
            self.say("\n".join(summary_lines(outcome, look)))
        if outcome.checkpoint is not None and (outcome.failure or not self.quiet):
            again = f"{self._command}{' with --resume-drained' if outcome.drained else ''}"
            self.say(f"{again} resumes from checkpoint {outcome.checkpoint}; {FRESH}")

    def written(self, done: BatchDone) -> None:
        """Print sources and sinks in columns."""
        if not self.quiet:
            self.say("\n".join(batch_summary_lines(done)))

    def nothing_written(self) -> None:
        """Print that nothing was written."""
        self.say(NOTHING_WRITTEN)


FRESH = "--fresh starts from scratch"
BACK_AGAIN = "the same command goes back to the savepoint: leave out --from-savepoint next time"
SAME_COMMAND = "the same command"
WITHOUT = "the command without --from-savepoint"


def resumed_lines(resumed: Resumed) -> Iterable[str]:
    """Describe what a job has resumed from.

    >>> list(resumed_lines(Resumed(7, "2026-01-31T08:01:10Z", (("orders", "in/a.jsonl from 12"),))))
    ['resumed from checkpoint 7 of 2026-01-31T08:01:10Z', '  orders: in/a.jsonl from 12']
    """
    if resumed.killed:
        yield f"the previous run was killed: {printable(resumed.killed)}"
    whence = f"checkpoint {resumed.number}"
    if resumed.savepoint is not None:
        whence = f"savepoint {printable(resumed.savepoint)}"
    yield f"resumed from {whence} of {resumed.taken_at}"
    for source, place in resumed.sources:
        yield f"  {source}: {printable(place)}"
    for change in resumed.changes:
        yield f"  {printable(change)}"
    if resumed.removed:
        yield f"  {_removed(resumed)}"
    if resumed.forgotten:
        yield f"  {_forgotten(resumed.forgotten)}"
    if resumed.savepoint is not None:
        yield f"  {BACK_AGAIN}"


def done_line(news: Asked | Savepointed | Rescaled) -> str:
    """Describe what was done on a client's request.

    >>> done_line(Rescaled({"totals": 3, "out": 2}, 0.318))
    'rescaled: totals 3, out 2; paused for 0.3 s'
    """
    match news:
        case Asked(drain):
            return "headrace stop: draining" if drain else "headrace stop: stopping"
        case Savepointed(number, path):
            return f"savepoint of checkpoint {number}: {printable(path)}"
        case Rescaled(parallelism, stood_still_s):
            parts = ", ".join(f"{name} {number}" for name, number in parallelism.items())
            return f"rescaled: {parts}; paused for {stood_still_s:.1f} s"


def _forgotten(checkpoints: int) -> str:
    """Describe the removal of another job from the same home.

    >>> _forgotten(3)
    'this is a new job: the 3 checkpoints of the previous job are removed'
    """
    those = f"the {checkpoints} checkpoints" if checkpoints > 1 else "the checkpoint"
    verb = "are" if checkpoints > 1 else "is"
    return f"this is a new job: {those} of the previous job {verb} removed"


def _removed(resumed: Resumed) -> str:
    """Describe the effects of resuming from an older checkpoint.

    >>> _removed(Resumed(5, "", (), removed=(6, 7), again=(("out", 1200), ("late", 1))))
    'checkpoints 6, 7 are removed; rows are written a second time: up to 1,200 of out, 1 of late'
    >>> _removed(Resumed(5, "", (), removed=(6,)))
    'checkpoint 6 is removed'
    """
    numbers = ", ".join(map(str, resumed.removed))
    gone = f"checkpoint{'s' * (len(resumed.removed) > 1)} {numbers}"
    gone = f"{gone} {'are' if len(resumed.removed) > 1 else 'is'} removed"
    rows = ", ".join(f"{rows:,} of {sink}" for sink, rows in resumed.again)
    return f"{gone}; rows are written a second time: up to {rows}" if rows else gone


def place(failure: Failure) -> str:
    """Describe where a job failed.

    >>> place(Failure("m", "orders > clean", "in/a.jsonl", 120))
    'orders > clean: in/a.jsonl at 120'
    """
    if not failure.split:
        return failure.step
    at = f" at {failure.position}" if failure.position is not None else ""
    return f"{failure.step}: {printable(failure.split)}{at}"


def checkpoint_said(taken: CheckpointTaken) -> str:
    """Describe a checkpoint with its cost.

    >>> checkpoint_said(CheckpointTaken(12, 0.31, 2 << 20))
    'checkpoint 12 (0.3 s, 2.0 MB)'
    """
    return f"checkpoint {taken.number} ({taken.seconds:.1f} s, {size(taken.bytes)})"


def progress_line(look: Look, checkpoint: str = "") -> str:
    """Format the progress as a line."""
    said = [
        f"{look.seconds:.0f} s",
        f"in {look.rows_in:,} ({look.in_per_s:,.0f}/s)",
        f"out {look.rows_out:,} ({look.out_per_s:,.0f}/s)",
    ]
    if look.bad:
        said.append(f"bad {look.bad:,}")
    if look.late:
        said.append(f"late {look.late:,}")
    if look.state_bytes:
        said.append(f"state {size(look.state_bytes)}")
    if checkpoint:
        said.append(checkpoint)
    if slowed := look.slowed:
        said.append(f"backpressure {slowed[0].backpressure} at {slowed[0].name}")
    return "  ".join(said)


def summary_lines(outcome: Outcome, look: Look) -> Iterable[str]:
    """Format the end of a run: one row per part, and a total."""
    late = () if look.late is None else ("late",)
    heads = ("", "rows in", "rows out", "bad", *late, "rows/s")
    yield from aligned([heads, *(_cells(part, look) for part in look.parts)])
    how = "stopped after" if outcome.stopped else "done in"
    rate = f"{look.in_per_s:,.0f} rows/s"
    yield f"{how} {look.seconds:.1f} s: {count(look.rows_in, 'row')} in, {rate}"
    if look.unfilled:
        yield f"{count(look.unfilled, 'row')} in count windows that never filled"


def aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Align rows in columns: the first to the left, the others, which are numbers, to the right.

    >>> list(aligned([("", "in"), ("orders", "5")]))
    ['        in', 'orders   5']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        numbers = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        yield "  ".join([name.ljust(widths[0]), *numbers])


def _cells(part: PartLook, look: Look) -> tuple[str, ...]:
    counts = part.counts
    late = () if look.late is None else (counts.late,)
    numbers = (counts.rows_in, counts.rows_out, counts.bad, *late, round(part.in_per_s))
    return (part.name, *("" if number is None else f"{number:,}" for number in numbers))


def _hints(hint: str) -> list[str]:
    return [f"      {printable(hint)}"] if hint else []
