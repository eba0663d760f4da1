"""Contents of a checkpoint or savepoint: positions of sources, and sizes of state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headrace.cli.reached import describe_progress
from headrace.cli.state.opened import OpenSnapshot
from headrace.cli.state.values import align_table, format_time
from headrace.core.plan.fingerprint import describe_fingerprint as meaning_said
from headrace.core.readable.sizes import (
    measure_from_row_count,
    measure_state,
    sum_bytes,
    sum_known_rows,
)
from headrace.core.readable.step import StepStateReader


def describe_contents(opened: OpenSnapshot, *, groups: bool) -> dict[str, Any]:
    """Return the contents as plain data."""
    said = opened.manifest
    return {
        "title": opened.snapshot.title,
        "pipeline": said["pipeline"],
        "job": said.get("job"),
        "checkpoint": said.get("number"),
        "time": said["time"],
        "version": said["version"],
        "ended": said["ended"],
        "drained": bool(said.get("drained")),
        "key_groups": said["key_groups"],
        "bytes": sum_bytes(said["states"]),
        "sources": {
            name: [_describe_split(each) for each in s] for name, s in said["sources"].items()
        },
        "steps": {step.step: _describe_step(step, groups=groups) for step in opened.read_steps()},
    }


def _describe_split(split: Any) -> dict[str, Any]:
    at = format_time(split["at_us"])
    return {name: split[name] for name in ("split", "position", "rows", "bad", "ended")} | {
        "watermark": at
    }


def _describe_step(step: StepStateReader, *, groups: bool) -> dict[str, Any]:
    said: Any = step.document
    subtasks = said["states"][step.step]
    documents = [document for subtask in subtasks for document in subtask]
    clocks = sorted({frozen.clock_us for frozen in step.frozen_states})
    counts = [frozen.counters for frozen in step.frozen_states]
    return {
        "meaning": meaning_said(step.fingerprint),
        "key": [{"name": field.name, "type": str(field.type)} for field in step.key.columns],
        "subtasks": len(subtasks),
        "clock": format_time(clocks[0]) if clocks else None,
        "clocks": len(clocks),
        "late": sum(count.late for count in counts),
        "unfilled": sum(count.unfilled for count in counts),
        "bytes": sum_bytes(subtasks),
        "states": {
            name: _describe_state(step, name, documents, groups=groups) for name in step.state_names
        },
    }


def _describe_state(
    step: StepStateReader, name: str, documents: Sequence[Any], *, groups: bool
) -> dict[str, Any]:
    said: Any = step.document
    counted_rows = sum_known_rows(documents, name)
    if counted_rows is not None and not groups:
        found = measure_from_row_count(name, step.frozen_states, counted_rows)
    else:
        found = measure_state(name, step.frozen_states, said["key_groups"])
    own = [document["states"].get(name) for document in documents]
    is_counted = counted_rows is None or groups
    shown: dict[str, Any] = {
        "kind": found.kind,
        "rows": found.rows,
        "keys": found.keys,
        "key_groups": len(found.groups) if is_counted else None,
        "bytes": sum_bytes(own),
    }
    if groups:
        most = found.most_loaded
        shown["groups"] = [group.document() for group in found.groups]
        shown["most_loaded"] = None if most is None else most.group
    return shown


def format_contents(opened: OpenSnapshot, found: dict[str, Any]) -> str:
    """Format the contents for people."""
    end = ", drained" if found["drained"] else ", at its end" if found["ended"] else ""
    lines = [
        found["title"],
        f"  taken at {found['time']} by headrace {found['version']},"
        f" {found['key_groups']} key groups, {found['bytes']:,} bytes{end}",
        *(
            f"  {name}: {describe_progress([(s['split'], s['position'], s['ended']) for s in splits])}"
            for name, splits in found["sources"].items()
        ),
    ]
    for name, step in found["steps"].items():
        lines += ["", *_format_step(name, step)]
    return "\n".join(lines)


def _format_step(name: str, step: dict[str, Any]) -> Iterator[str]:
    clock = f"; clock {step['clock']}" if step["clock"] else ""
    yield f"{name}: {step['meaning']}"
    counts = [f"{step[what]} {what}" for what in ("late", "unfilled") if step[what]]
    subtasks = f"{step['subtasks']} subtask{'' if step['subtasks'] == 1 else 's'}"
    yield f"  {subtasks}{clock}{''.join(f'; {count}' for count in counts)}"
    head = ["state", "kind", "rows", "keys", "key groups", "bytes"]
    rows = [_format_state(state, found) for state, found in step["states"].items()]
    table = align_table([head, *rows], [False, False, True, True, True, True])
    yield from (f"  {line}" for line in table.splitlines())
    for state, found in step["states"].items():
        yield from _format_groups(state, found)


def _format_state(name: str, state: dict[str, Any]) -> list[str]:
    counts = (state["rows"], state["keys"], state["key_groups"], state["bytes"])
    return [name, state["kind"], *("-" if n is None else f"{n:,}" for n in counts)]


def _format_groups(name: str, state: dict[str, Any]) -> Iterator[str]:
    groups = state.get("groups")
    if not groups:
        return
    most = next(group for group in groups if group["group"] == state["most_loaded"])
    share = most["rows"] / max(state["rows"], 1)
    said = f"{most['rows']:,} of {state['rows']:,} rows ({share:.0%})"
    yield f"  {name}: most are in key group {most['group']}: {said}"
    head = ["key group", "keys", "rows"]
    rows = [[f"{group[key]:,}" for key in ("group", "keys", "rows")] for group in groups]
    table = align_table([head, *rows], [True, True, True])
    yield from (f"    {line}" for line in table.splitlines())
