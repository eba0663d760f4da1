"""A run told in lines: one every ten seconds, and a summary in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

import click

from headrace.cli.failures import keep_defect
from headrace.cli.pipelines import painted
from headrace.cli.run_progress import Look, PartLook
from headrace.core.job import Outcome
from headrace.core.messages import Failure
from headrace.core.plan import Plan
from headrace.core.problems import Problem
from headrace.core.rendering import count, printable

STOPPING = "stopping: what was read is finished and written; a second Ctrl-C ends it at once"
INTERRUPTED = "stopped at once: what was not written yet is lost"


class TextReport:
    """Lines on stderr. When quiet, only what goes wrong."""

    every_s = 10.0

    def __init__(self, pipeline: str, quiet: bool) -> None:
        self.pipeline = printable(pipeline)
        self.quiet = quiet

    def say(self, text: str) -> None:
        """A line, or several."""
        click.echo(text, err=True)

    def problem(self, problem: Problem) -> None:
        """As `validate` shows it."""
        if problem.severity == "error" or not self.quiet:
            self.say(painted(problem))

    def start(self, plan: Plan) -> None:
        """Nothing: the first line comes when there is something to tell."""

    def showing(self) -> AbstractContextManager[object]:
        """Lines need no room kept for them."""
        return nullcontext()

    def progress(self, look: Look) -> None:
        """One line."""
        if not self.quiet:
            self.say(progress_line(look))

    def stopping(self) -> None:
        """One line."""
        if not self.quiet:
            self.say(STOPPING)

    def refusal(self, message: str, hint: str, status: int) -> None:
        """What, and what to do."""
        self.say("\n".join([f"{self.pipeline}: {printable(message)}", *_hints(hint)]))

    def failure(self, failure: Failure) -> None:
        """What, where, and what to do; of a defect of ours, the file that holds its traceback."""
        if failure.defect:
            what = f"{failure.message.splitlines()[0]} in {failure.step}"
            self.say(keep_defect(what, failure.defect))
        else:
            head = f"{self.pipeline}: {place(failure)}: {printable(failure.message)}"
            self.say("\n".join([head, *_hints(failure.hint)]))

    def interrupted(self) -> None:
        """One line."""
        self.say(INTERRUPTED)

    def summary(self, outcome: Outcome, look: Look) -> None:
        """The parts in columns; what failed has been told already."""
        if not self.quiet and not outcome.failure:
            self.say("\n".join(summary_lines(outcome, look)))


def place(failure: Failure) -> str:
    """Where a job failed.

    >>> place(Failure("m", "orders > clean", "in/a.jsonl", 120))
    'orders > clean: in/a.jsonl at 120'
    """
    if not failure.split:
        return failure.step
    at = f" at {failure.position}" if failure.position is not None else ""
    return f"{failure.step}: {printable(failure.split)}{at}"


def progress_line(look: Look) -> str:
    """What the job is doing, in a line."""
    said = [
        f"{look.seconds:.0f} s",
        f"in {look.rows_in:,} ({look.in_per_s:,.0f}/s)",
        f"out {look.rows_out:,} ({look.out_per_s:,.0f}/s)",
    ]
    if look.bad:
        said.append(f"bad {look.bad:,}")
    if look.late:
        said.append(f"late {look.late:,}")
    if slowed := look.slowed:
        said.append(f"backpressure {slowed[0].backpressure} at {slowed[0].name}")
    return "  ".join(said)


def summary_lines(outcome: Outcome, look: Look) -> Iterable[str]:
    """The end of a run: a row a part, and below it all of them together."""
    late = () if look.late is None else ("late",)
    heads = ("", "rows in", "rows out", "bad", *late, "rows/s")
    yield from aligned([heads, *(_cells(part, look) for part in look.parts)])
    how = "stopped after" if outcome.stopped else "done in"
    rate = f"{look.in_per_s:,.0f} rows/s"
    yield f"{how} {look.seconds:.1f} s: {count(look.rows_in, 'row')} in, {rate}"
    if look.unfilled:
        yield f"{count(look.unfilled, 'row')} in count windows that never filled"


def aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Rows in columns: the first to the left, the others, which are numbers, to the right.

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
