"""Overview of checkpoints and savepoints: all of a home, or the contents of one.

Contents are the positions of sources and the sizes of state.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.cli.control.job_lookup import list_homes
from headrace.cli.formatting import align_columns, describe_progress
from headrace.cli.state.snapshot_argument import OpenSnapshot
from headrace.cli.state.values import format_time
from headrace.core.api.snapshots import Manifest, SnapshotError
from headrace.core.plan.fingerprint import describe_fingerprint as meaning_said
from headrace.core.state_reader.state_statistics import (
    measure_from_row_count,
    measure_state,
    sum_bytes,
    sum_known_rows,
)
from headrace.core.state_reader.step_states import StepStateReader
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.savepoints import names
from headrace.state.savepoints.savepoint import is_savepoint, open_savepoint
from headrace.state.storage.checkpoint_location import read_location
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.remote.checkpoint_repository import open_repository


def describe_contents(opened: OpenSnapshot, *, groups: bool) -> dict[str, Any]:
    """Return the contents as plain data."""
    manifest = opened.manifest
    return {
        "title": opened.snapshot.title,
        "pipeline": manifest["pipeline"],
        "job": manifest.get("job"),
        "checkpoint": manifest.get("number"),
        "time": manifest["time"],
        "version": manifest["version"],
        "ended": manifest["ended"],
        "drained": bool(manifest.get("drained")),
        "key_groups": manifest["key_groups"],
        "bytes": sum_bytes(manifest["states"]),
        "sources": {
            name: [_describe_split(each) for each in s] for name, s in manifest["sources"].items()
        },
        "steps": {step.step: _describe_step(step, groups=groups) for step in opened.read_steps()},
    }


def _describe_split(split: Any) -> dict[str, Any]:
    at = format_time(split["at_us"])
    return {name: split[name] for name in ("split", "position", "rows", "bad", "ended")} | {
        "watermark": at
    }


def _describe_step(step: StepStateReader, *, groups: bool) -> dict[str, Any]:
    content: Any = step.document
    subtasks = content["states"][step.step]
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
    content: Any = step.document
    counted_rows = sum_known_rows(documents, name)
    if counted_rows is not None and not groups:
        measured = measure_from_row_count(name, step.frozen_states, counted_rows)
    else:
        measured = measure_state(name, step.frozen_states, content["key_groups"])
    own = [document["states"].get(name) for document in documents]
    is_counted = counted_rows is None or groups
    shown: dict[str, Any] = {
        "kind": measured.kind,
        "rows": measured.rows,
        "keys": measured.keys,
        "key_groups": len(measured.groups) if is_counted else None,
        "bytes": sum_bytes(own),
    }
    if groups:
        largest_group = measured.most_loaded
        shown["groups"] = [group.document() for group in measured.groups]
        shown["most_loaded"] = None if largest_group is None else largest_group.group
    return shown


def format_contents(opened: OpenSnapshot, document: dict[str, Any]) -> str:
    """Format the contents for people."""
    end = ", drained" if document["drained"] else ", at its end" if document["ended"] else ""
    lines = [
        document["title"],
        f"  taken at {document['time']} by headrace {document['version']},"
        f" {document['key_groups']} key groups, {document['bytes']:,} bytes{end}",
        *(
            f"  {name}: "
            f"{describe_progress([(s['split'], s['position'], s['ended']) for s in splits])}"
            for name, splits in document["sources"].items()
        ),
    ]
    for name, step in document["steps"].items():
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
    yield from (f"  {line}" for line in align_columns([head, *rows], left=(0, 1)))
    for state, found in step["states"].items():
        yield from _format_groups(state, found)


def _format_state(name: str, state: dict[str, Any]) -> list[str]:
    counts = (state["rows"], state["keys"], state["key_groups"], state["bytes"])
    return [name, state["kind"], *("-" if n is None else f"{n:,}" for n in counts)]


def _format_groups(name: str, state: dict[str, Any]) -> Iterator[str]:
    groups = state.get("groups")
    if not groups:
        return
    largest_group = next(group for group in groups if group["group"] == state["most_loaded"])
    share = largest_group["rows"] / max(state["rows"], 1)
    text = f"{largest_group['rows']:,} of {state['rows']:,} rows ({share:.0%})"
    yield f"  {name}: most are in key group {largest_group['group']}: {text}"
    head = ["key group", "keys", "rows"]
    rows = [[f"{group[key]:,}" for key in ("group", "keys", "rows")] for group in groups]
    yield from (f"    {line}" for line in align_columns([head, *rows], left=()))


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """A checkpoint or savepoint in the list; `what` is its name in commands."""

    what: str
    kind: str
    job: str
    checkpoint: int
    time: str | None = None
    version: str | None = None
    parallelism: int | None = None
    bytes: int | None = None
    drained: bool = False
    damaged: str | None = None

    def build_document(self) -> dict[str, object]:
        """Return the entry as plain data."""
        return {
            "what": self.what,
            "kind": self.kind,
            "job": self.job,
            "checkpoint": self.checkpoint,
            "time": self.time,
            "version": self.version,
            "parallelism": self.parallelism,
            "bytes": self.bytes,
            "drained": self.drained,
            "damaged": self.damaged,
        }


def list_snapshots(root: str) -> list[SnapshotEntry]:
    """List the checkpoints of all jobs in a folder of homes, then their savepoints.

    Raises Refusal.
    """
    checkpoints = [one for home in list_homes(root) for one in _list_checkpoints(home)]
    folders = (os.path.join(root, name) for name in (names.SAVEPOINTS, names.FORMER_SAVEPOINTS))
    return [*checkpoints, *(one for folder in folders for one in _list_savepoints(folder))]


def format_snapshots(found: Sequence[SnapshotEntry]) -> str:
    """Format the list as a table."""
    lines = [["what", "kind", "taken at", "headrace", "bytes", ""]]
    for one in found:
        note = one.damaged or ("drained" if one.drained else "")
        size = "" if one.bytes is None else f"{one.bytes:,}"
        lines.append([one.what, one.kind, one.time or "", one.version or "", size, note])
    return "\n".join(align_columns(lines, left=(0, 1, 2, 3, 5)))


def _list_checkpoints(home: Home) -> Iterator[SnapshotEntry]:
    """Yield the checkpoints of a job, the newest first."""
    try:
        if not home.disk.list_names(home.checkpoint_folder) and read_location(home) is None:
            return
        store = open_repository(home).open_read_only()
        numbers = store.list_checkpoints() if store else []
    except SnapshotError as error:
        yield SnapshotEntry(home.name, "checkpoint", home.name, 0, damaged=error.message)
        return
    for number in reversed(numbers):
        what = f"{home.name}@{number}"
        try:
            assert store is not None
            yield _describe_snapshot(
                what, "checkpoint", home.name, number, store.read_manifest(number)
            )
        except SnapshotError as error:
            yield SnapshotEntry(what, "checkpoint", home.name, number, damaged=error.message)


def _list_savepoints(root: str) -> Iterator[SnapshotEntry]:
    for job in sorted(LocalDisk().list_names(root)):
        within = os.path.join(root, job)
        every = LocalDisk().list_names(within) if os.path.isdir(within) else ()
        for name in sorted(every, reverse=True):
            folder = os.path.join(within, name)
            if names.is_unfinished(name) or not is_savepoint(folder):
                continue
            try:
                savepoint = open_savepoint(folder)
                number = savepoint.number
                yield _describe_snapshot(folder, "savepoint", job, number, savepoint.document)
            except SnapshotError as error:
                yield SnapshotEntry(folder, "savepoint", job, 0, damaged=error.message)


def _describe_snapshot(
    what: str, kind: str, job: str, number: int, document: Manifest
) -> SnapshotEntry:
    content: Any = document
    subtasks = [part["subtasks"] for part in content["parts"].values()]
    drained = bool(content.get("drained"))
    size, parallelism = sum_bytes(content["states"]), max(subtasks, default=1)
    return SnapshotEntry(
        what, kind, job, number, content["time"], content["version"], parallelism, size, drained
    )
