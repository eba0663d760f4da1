"""Rendering of problems for people: location, message, the line with a caret, and the hint.

    orders.yaml:14:12: step "totals": unknown column "prise"
       14 |     where: prise > 0
          |            ^^^^^ did you mean "price"?

The caret is under the spot, whatever the line contains: tabs take one column, wide characters two,
control characters are escaped, and a very long line is cut to the part around the spot.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from typing import TypeAlias

from headrace.core.errors.problems import Location, Problem

# The most characters shown of a line; half of them before the spot where the line is cut.
MAX_LINE_WIDTH = 100

Painter: TypeAlias = Callable[[str, str], str]
"""Colours a text by its role: "place", "error" or "warning"."""


def paint_plain(text: str, role: str) -> str:
    """Return the text without colour."""
    return text


def render_problem(problem: Problem, paint: Painter = paint_plain) -> str:
    """Format a problem in up to three lines."""
    parts = [escape_unprintable(problem.subject), escape_unprintable(problem.message)]
    hint = escape_unprintable(_build_hint(problem))
    if problem.severity == "warning":
        parts.insert(0, paint("warning", "warning"))
    place = problem.location
    if place is None:
        return _append_hint(": ".join(filter(None, parts)), hint)
    where = f"{place.file}:{place.line}:{place.column}" if place.line else place.file
    head = ": ".join(filter(None, [paint(escape_unprintable(where), "place"), *parts]))
    if not place.length:
        return _append_hint(head, hint)
    before, spot, after = _cut_line(place)
    number = str(place.line or "")
    caret = paint("^" * max(1, _measure_width(spot)), problem.severity)
    return (
        f"{head}\n{number:>5} | {before}{spot}{after}\n"
        f"{'':>{max(5, len(number))}} | {' ' * _measure_width(before)}{caret} {hint}".rstrip()
    )


def _build_hint(problem: Problem) -> str:
    """Return the hint, with the value that replaced a `${...}` unless the message shows it."""
    value = problem.location.replaced_value if problem.location else ""
    if not value or value in problem.message:
        return problem.hint
    return "; ".join(filter(None, [problem.hint, f"the value here is {value}"]))


def format_size(bytes: int) -> str:
    """Format a number of bytes in the units of the pipeline language.

    >>> [format_size(900), format_size(1536), format_size(300 << 20), format_size(5 << 30)]
    ['900 B', '1.5 KB', '300.0 MB', '5.0 GB']
    """
    if bytes < 1024:
        return f"{bytes} B"
    amount, unit = bytes / 1024, "KB"
    for larger in ("MB", "GB", "TB"):
        if amount >= 1024:
            amount, unit = amount / 1024, larger
    return f"{amount:.1f} {unit}"


def format_count(number: int, noun: str) -> str:
    """Format a number and its noun.

    >>> format_count(1, "error"), format_count(1200, "row")
    ('1 error', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_problem_counts(problems: Iterable[Problem]) -> str:
    """Format the number of errors and warnings."""
    severities = [problem.severity for problem in problems]
    found = [
        format_count(severities.count(kind), kind)
        for kind in ("error", "warning")
        if kind in severities
    ]
    return ", ".join(found) or "no problems"


def _append_hint(head: str, hint: str) -> str:
    return f"{head}\n      {hint}" if hint else head


def _cut_line(place: Location) -> tuple[str, str, str]:
    """Return the shown text before the spot, the spot, and the text after it."""
    start = place.column - 1
    end = start + place.length
    first, last = 0, len(place.text)
    if last > MAX_LINE_WIDTH:
        first = max(0, min(start - MAX_LINE_WIDTH // 2, last - MAX_LINE_WIDTH))
        last = first + MAX_LINE_WIDTH
    before, spot = place.text[first:start], place.text[start : min(end, last)]
    after = place.text[min(end, last) : last]
    return (
        ("..." if first else "") + escape_unprintable(before),
        escape_unprintable(spot),
        escape_unprintable(after).rstrip() + ("..." if last < len(place.text) else ""),
    )


def escape_unprintable(text: str) -> str:
    """Escape the characters that would move a terminal's cursor by other than one or two columns.

    >>> escape_unprintable("a\\tb\\x1b[0m")
    'a b\\\\x1b[0m'
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else " " if c.isspace() else c.encode("unicode_escape").decode()
        for c in text
    )


def _measure_width(text: str) -> int:
    """Return the width of the text in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
