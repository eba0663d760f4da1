"""The results of tests as text, and as a JUnit file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

import click

from headrace.core.errors.rendering import escape_unprintable, format_count
from headrace.core.testing.stream_checks import Mismatch


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of a test; `variant` is the way of running it in which it failed."""

    file: str
    name: str
    seconds: float
    mismatches: Sequence[Mismatch] = ()
    variant: str = ""


def format_result(result: CaseResult) -> str:
    """Format a failed test: the places of its expectations, and the rows that differ."""
    how = f" ({result.variant})" if result.variant else ""
    head = click.style("failed", fg="red", bold=True)
    lines = [f"{head}: {escape_unprintable(result.name)}{how}"]
    for each in result.mismatches:
        lines += [f"  {line}" for line in _format_mismatch(each)]
    return "\n".join(lines)


def _format_mismatch(mismatch: Mismatch) -> list[str]:
    place = mismatch.location
    head = f"{place.file}:{place.line}:{place.column}: {mismatch.message}"
    lines = [escape_unprintable(head)]
    lines += [f"  {_paint(escape_unprintable(line))}" for line in mismatch.lines]
    return [*lines, f"      {mismatch.hint}"] if mismatch.hint else lines


def _paint(line: str) -> str:
    colour = {"-": "red", "+": "green"}.get(line[:1])
    return click.style(line, fg=colour) if colour else line


def format_summary(results: Sequence[CaseResult], seconds: float) -> str:
    """Format the numbers of tests: `2 tests: 1 passed, 1 failed, in 0.4 s`."""
    failed = sum(bool(each.mismatches) for each in results)
    counts = {"passed": len(results) - failed, "failed": failed}
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{format_count(len(results), 'test')}: {said}, in {seconds:.1f} s"


def write_junit(path: str, results: Sequence[CaseResult]) -> None:
    """Write a JUnit file with a case for each test."""
    root = ElementTree.Element("testsuites")
    for file in dict.fromkeys(each.file for each in results):
        of_file = [each for each in results if each.file == file]
        failures = sum(bool(each.mismatches) for each in of_file)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=file,
            tests=str(len(of_file)),
            failures=str(failures),
            errors="0",
        )
        for each in of_file:
            _add_case(suite, each)
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, "utf-8", xml_declaration=True)


def _add_case(suite: ElementTree.Element, result: CaseResult) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=result.file, name=result.name, time=f"{result.seconds:.3f}"
    )
    if result.mismatches:
        messages = [line for each in result.mismatches for line in _format_mismatch(each)]
        message = f"{result.mismatches[0].message} {result.variant}".strip()
        failure = ElementTree.SubElement(case, "failure", message=message)
        failure.text = click.unstyle("\n".join(messages))
