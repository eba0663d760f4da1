"""The changes upstream of restored states: no state is misread, but its input may differ.

Parts are described as in a manifest: the producers of each, and its clauses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

PartDescriptions: TypeAlias = Mapping[str, Mapping[str, Any]]


def find_upstream_changes(
    steps: Collection[str], before: PartDescriptions, now: PartDescriptions
) -> Iterator[str]:
    """Yield a line for each part that has changed upstream of the states of these steps."""
    for part in {**now, **before}:
        of = [
            step
            for step in now
            if step in steps and part in _find_upstream_parts(step, before, now)
        ]
        if part in steps and not of:  # its clauses upstream of its own state
            if text := _compare_clauses(before[part]["before"], now[part]["before"]):
                yield f"upstream of its own state: {part} has changed: {text}"
        elif of:
            text = _compare_parts(before.get(part), now.get(part))
            if text:
                yield f"upstream of {', '.join(of)}: {part} {text}"


def _find_upstream_parts(step: str, *graphs: PartDescriptions) -> set[str]:
    """Return the parts upstream of a step."""
    found: set[str] = set()
    for parts in graphs:
        pending = [*parts[step]["from"]]
        while pending:
            part = pending.pop()
            found.add(part)
            pending.extend(parts[part]["from"])
    return found


def _compare_parts(was: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> str:
    if now is None or was is None:
        return "was removed" if now is None else "is new"
    text = _compare_clauses([*was["before"], *was["then"]], [*now["before"], *now["then"]])
    return f"has changed: {text}" if text else ""


def _compare_clauses(was: list[str], now: list[str]) -> str:
    """Return the clauses that differ.

    >>> _compare_clauses(["from a", "where (x > 1)"], ["from a", "where (x > 2)"])
    'was where (x > 1), is where (x > 2)'
    """
    gone = "; ".join(text for text in was if text not in now)
    new = "; ".join(text for text in now if text not in was)
    if not gone and not new:
        return "their order" if was != now else ""
    return ", ".join(filter(None, (f"was {gone}" if gone else "", f"is {new}" if new else "")))
