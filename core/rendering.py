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

from headrace.core.problems import Place, Problem

# The most characters shown of a line; half of them before the spot where the line is cut.
WIDTH = 100

Paint: TypeAlias = Callable[[str, str], str]
"""Colours a text by its role: "place", "error" or "warning"."""


def plain(text: str, role: str) -> str:
    """Return the text without colour."""
    return text


def render(problem: Problem, paint: Paint = plain) -> str:
    """Format a problem in up to three lines."""
    parts = [printable(problem.subject), printable(problem.message)]
    hint = printable(_hint(problem))
    if problem.severity == "warning":
        parts.insert(0, paint("warning", "warning"))
    place = problem.place
    if place is None:
        return _with_hint(": ".join(filter(None, parts)), hint)
    where = f"{place.file}:{place.line}:{place.column}" if place.line else place.file
    head = ": ".join(filter(None, [paint(printable(where), "place"), *parts]))
    if not place.length:
        return _with_hint(head, hint)
    before, spot, after = _window(place)
    number = str(place.line or "")
    caret = paint("^" * max(1, _columns(spot)), problem.severity)
    return (
        f"{head}\n{number:>5} | {before}{spot}{after}\n"
        f"{'':>{max(5, len(number))}} | {' ' * _columns(before)}{caret} {hint}".rstrip()
    )


def _hint(problem: Problem) -> str:
    """Return the hint, with the value that replaced a `${...}` unless the message shows it."""
    value = problem.place.replaced if problem.place else ""
    if not value or value in problem.message:
        return problem.hint
    return "; ".join(filter(None, [problem.hint, f"the value here is {value}"]))


def size(bytes: int) -> str:
    """Format a number of bytes in the units of the pipeline language.

    >>> [size(900), size(1536), size(300 << 20), size(5 << 30)]
    ['900 B', '1.5 KB', '300.0 MB', '5.0 GB']
    """
    if bytes < 1024:
        return f"{bytes} B"
    amount, unit = bytes / 1024, "KB"
    for larger in ("MB", "GB", "TB"):
        if amount >= 1024:
            amount, unit = amount / 1024, larger
    return f"{amount:.1f} {unit}"


def count(number: int, noun: str) -> str:
    """Format a number and its noun.

    >>> count(1, "error"), count(1200, "row")
    ('1 error', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def tally(problems: Iterable[Problem]) -> str:
    """Format the number of errors and warnings."""
    severities = [problem.severity for problem in problems]
    found = [
        count(severities.count(kind), kind) for kind in ("error", "warning") if kind in severities
    ]
    return ", ".join(found) or "no problems"


def _with_hint(head: str, hint: str) -> str:
    return f"{head}\n      {hint}" if hint else head


def _window(place: Place) -> tuple[str, str, str]:
    """Return the shown text before the spot, the spot, and the text after it."""
    start = place.column - 1
    end = start + place.length
    first, last = 0, len(place.text)
    if last > WIDTH:
        first = max(0, min(start - WIDTH // 2, last - WIDTH))
        last = first + WIDTH
    before, spot = place.text[first:start], place.text[start : min(end, last)]
    after = place.text[min(end, last) : last]
    return (
        ("..." if first else "") + printable(before),
        printable(spot),
        printable(after).rstrip() + ("..." if last < len(place.text) else ""),
    )


def printable(text: str) -> str:
    """Escape the characters that would move a terminal's cursor by other than one or two columns.

    >>> printable("a\\tb\\x1b[0m")
    'a b\\\\x1b[0m'
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else " " if c.isspace() else c.encode("unicode_escape").decode()
        for c in text
    )


def _columns(text: str) -> int:
    """Return the width of the text in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
