"""The results of tests as text."""

from __future__ import annotations

from collections.abc import Sequence

import click

from headrace.core.errors.problems import Location
from headrace.core.errors.rendering import escape_unprintable, format_count
from headrace.core.pipeline.pipeline_tests.text_edits import TextEdit
from headrace.core.testing.stream_checks import Mismatch
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of a test; `variant` is the way of running it in which it failed."""

    file: str
    name: str
    seconds: float
    mismatches: Sequence[Mismatch] = ()
    variant: str = ""
    note: str = ""
    """The reason for which the test was not fixed."""
    fixed: Sequence[tuple[Location, str]] = ()
    """The expectations that were corrected: where they are written, and of what."""
    edits: Sequence[TextEdit] = ()
    skipped: str = ""
    """The reason for which the test was not run on Spark."""
    has_run_here: bool = False
    """Whether a test that was not run on Spark was run here."""

    @property
    def outcome(self) -> str:
        """The result in a word."""
        if self.mismatches:
            return "failed"
        if self.skipped and not self.has_run_here:
            return "skipped"
        return "fixed" if self.fixed else "passed"


def format_result(result: CaseResult) -> str:
    """Format a failed or fixed test: its expectations, with their places, and rows that differ."""
    how = f" ({result.variant})" if result.variant else ""
    color = {"failed": "red", "skipped": "yellow"}.get(result.outcome, "green")
    head = click.style(result.outcome, fg=color, bold=True)
    lines = [f"{head}: {escape_unprintable(result.name)}{how}"]
    for each in result.mismatches:
        lines += [f"  {line}" for line in format_mismatch(each)]
    if result.skipped:
        lines.append(f"  not run on Spark: {escape_unprintable(result.skipped)}")
    lines += [f"  {_format_place(at)}: {escape_unprintable(of)}" for at, of in result.fixed]
    return "\n".join([*lines, f"  not fixed: {result.note}"] if result.note else lines)


def format_created(result: CaseResult) -> str:
    """Format a test that was written, or why it was not."""
    if result.mismatches:
        return format_result(result).replace("  not fixed: ", "  not created: ")
    head = click.style("created", fg="green", bold=True)
    ((place, name),) = result.fixed
    return f"{head}: {escape_unprintable(name)}\n  {_format_place(place)}"


def format_mismatch(mismatch: Mismatch) -> list[str]:
    """Format what does not hold, with its place if it is written in a file, and the rows."""
    place = f"{_format_place(mismatch.location)}: " if mismatch.location.line else ""
    head = f"{place}{mismatch.message}"
    lines = [escape_unprintable(head)]
    lines += [f"  {_paint(escape_unprintable(line))}" for line in mismatch.lines]
    return [*lines, f"      {mismatch.hint}"] if mismatch.hint else lines


def _format_place(place: Location) -> str:
    return f"{place.file}:{place.line}:{place.column}"


def _paint(line: str) -> str:
    colour = {"-": "red", "+": "green"}.get(line[:1])
    return click.style(line, fg=colour) if colour else line


def format_summary(results: Sequence[CaseResult], seconds: float) -> str:
    """Format the numbers of tests: `2 tests: 1 passed, 1 failed, in 0.4 s`."""
    counts = dict.fromkeys(("passed", "fixed", "failed", "skipped"), 0)
    for each in results:
        counts[each.outcome] += 1
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{format_count(len(results), 'test')}: {said}, in {seconds:.1f} s"
