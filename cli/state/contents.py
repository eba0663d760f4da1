"""Contents of a checkpoint or savepoint: positions of sources, and sizes of state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headrace.cli.reached import reached
from headrace.cli.state.opened import Opened
from headrace.cli.state.values import aligned, time_said
from headrace.core.plan.fingerprint import said as meaning_said
from headrace.core.readable.sizes import bytes_in, size, told_rows, told_size
from headrace.core.readable.step import ReadableStep


def contents(opened: Opened, *, groups: bool) -> dict[str, Any]:
    """Return the contents as plain data."""
    said = opened.said
    return {
        "title": opened.kept.title,
        "pipeline": said["pipeline"],
        "job": said.get("job"),
        "checkpoint": said.get("number"),
        "time": said["time"],
        "version": said["version"],
        "ended": said["ended"],
        "drained": bool(said.get("drained")),
        "key_groups": said["key_groups"],
        "bytes": bytes_in(said["states"]),
        "sources": {name: [_split(each) for each in s] for name, s in said["sources"].items()},
        "steps": {step.step: _step(step, groups=groups) for step in opened.steps()},
    }


def _split(split: Any) -> dict[str, Any]:
    at = time_said(split["at_us"])
    return {name: split[name] for name in ("split", "position", "rows", "bad", "ended")} | {
        "watermark": at
    }


def _step(step: ReadableStep, *, groups: bool) -> dict[str, Any]:
    said: Any = step.document
    subtasks = said["states"][step.step]
    documents = [document for subtask in subtasks for document in subtask]
    clocks = sorted({frozen.clock_us for frozen in step.frozen})
    counts = [frozen.counts for frozen in step.frozen]
    return {
        "meaning": meaning_said(step.kept),
        "key": [{"name": field.name, "type": str(field.type)} for field in step.key.columns],
        "subtasks": len(subtasks),
        "clock": time_said(clocks[0]) if clocks else None,
        "clocks": len(clocks),
        "late": sum(count.late for count in counts),
        "unfilled": sum(count.unfilled for count in counts),
        "bytes": bytes_in(subtasks),
        "states": {name: _state(step, name, documents, groups=groups) for name in step.names},
    }


def _state(
    step: ReadableStep, name: str, documents: Sequence[Any], *, groups: bool
) -> dict[str, Any]:
    said: Any = step.document
    counted_rows = told_rows(documents, name)
    if counted_rows is not None and not groups:
        found = told_size(name, step.frozen, counted_rows)
    else:
        found = size(name, step.frozen, said["key_groups"])
    own = [document["states"].get(name) for document in documents]
    is_counted = counted_rows is None or groups
    shown: dict[str, Any] = {
        "kind": found.kind,
        "rows": found.rows,
        "keys": found.keys,
        "key_groups": len(found.groups) if is_counted else None,
        "bytes": bytes_in(own),
    }
    if groups:
        most = found.most_loaded
        shown["groups"] = [group.document() for group in found.groups]
        shown["most_loaded"] = None if most is None else most.group
    return shown


def contents_said(opened: Opened, found: dict[str, Any]) -> str:
    """Format the contents for people."""
    end = ", drained" if found["drained"] else ", at its end" if found["ended"] else ""
    lines = [
        found["title"],
        f"  taken at {found['time']} by headrace {found['version']},"
        f" {found['key_groups']} key groups, {found['bytes']:,} bytes{end}",
        *(
            f"  {name}: {reached([(s['split'], s['position'], s['ended']) for s in splits])}"
            for name, splits in found["sources"].items()
        ),
    ]
    for name, step in found["steps"].items():
        lines += ["", *_step_said(name, step)]
    return "\n".join(lines)


def _step_said(name: str, step: dict[str, Any]) -> Iterator[str]:
    clock = f"; clock {step['clock']}" if step["clock"] else ""
    yield f"{name}: {step['meaning']}"
    counts = [f"{step[what]} {what}" for what in ("late", "unfilled") if step[what]]
    subtasks = f"{step['subtasks']} subtask{'' if step['subtasks'] == 1 else 's'}"
    yield f"  {subtasks}{clock}{''.join(f'; {count}' for count in counts)}"
    head = ["state", "kind", "rows", "keys", "key groups", "bytes"]
    rows = [_state_said(state, found) for state, found in step["states"].items()]
    table = aligned([head, *rows], [False, False, True, True, True, True])
    yield from (f"  {line}" for line in table.splitlines())
    for state, found in step["states"].items():
        yield from _groups_said(state, found)


def _state_said(name: str, state: dict[str, Any]) -> list[str]:
    counts = (state["rows"], state["keys"], state["key_groups"], state["bytes"])
    return [name, state["kind"], *("-" if n is None else f"{n:,}" for n in counts)]


def _groups_said(name: str, state: dict[str, Any]) -> Iterator[str]:
    groups = state.get("groups")
    if not groups:
        return
    most = next(group for group in groups if group["group"] == state["most_loaded"])
    share = most["rows"] / max(state["rows"], 1)
    said = f"{most['rows']:,} of {state['rows']:,} rows ({share:.0%})"
    yield f"  {name}: most are in key group {most['group']}: {said}"
    head = ["key group", "keys", "rows"]
    rows = [[f"{group[key]:,}" for key in ("group", "keys", "rows")] for group in groups]
    table = aligned([head, *rows], [True, True, True])
    yield from (f"    {line}" for line in table.splitlines())
