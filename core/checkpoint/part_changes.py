"""The changes of a pipeline's parts since a checkpoint: their clauses, as texts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from headrace.core.checkpoint.manifest import PartDescription, PartDescriptions


def find_upstream_changes(
    steps: Collection[str], before: PartDescriptions, now: PartDescriptions
) -> Iterator[str]:
    """Yield a line for each part that has changed upstream of the states of these steps."""
    for part in {**now, **before}:
        of = [
            step for step in now if step in steps and part in find_upstream_parts(step, before, now)
        ]
        if part in steps and not of:  # its clauses upstream of its own state
            if text := _compare_clauses(before[part].clauses_before, now[part].clauses_before):
                yield f"upstream of its own state: {part} has changed: {text}"
        elif of:
            text = compare_parts(before.get(part), now.get(part))
            if text:
                yield f"upstream of {', '.join(of)}: {part} {text}"


def find_upstream_parts(step: str, *graphs: PartDescriptions) -> set[str]:
    """Return the parts upstream of a step; in a loop, that is all of its steps."""
    found: set[str] = set()
    for parts in graphs:
        pending, passed = [*parts[step].producers], {step}
        while pending:
            part = pending.pop()
            if part not in passed:
                passed.add(part)
                pending.extend(parts[part].producers)
        found |= passed - {step}
    return found


def compare_parts(was: PartDescription | None, now: PartDescription | None) -> str:
    """Return what has changed in a part, in words; nothing if it is the same."""
    if now is None or was is None:
        return "was removed" if now is None else "is new"
    text = _compare_clauses(
        was.clauses_before + was.clauses_after, now.clauses_before + now.clauses_after
    )
    return f"has changed: {text}" if text else ""


def compare_inputs(was: PartDescription, now: PartDescription) -> str:
    """Return what has changed in the clauses of a part before its state."""
    text = _compare_clauses(was.clauses_before, now.clauses_before)
    return f"has changed: {text}" if text else ""


def _compare_clauses(was: Sequence[str], now: Sequence[str]) -> str:
    """Return the clauses that differ.

    >>> _compare_clauses(["from a", "where (x > 1)"], ["from a", "where (x > 2)"])
    'was where (x > 1), is where (x > 2)'
    """
    removed = "; ".join(text for text in was if text not in now)
    new = "; ".join(text for text in now if text not in was)
    if not removed and not new:
        return "their order" if was != now else ""
    return ", ".join(
        filter(None, (f"was {removed}" if removed else "", f"is {new}" if new else ""))
    )
