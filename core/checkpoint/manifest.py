"""A checkpoint as the document in its manifest, and back.

Parts are identified by name, not by number.

    {"version": ..., "pipeline": ..., "ended": false, "drained": false, "key_groups": 128,
     "parts": {"clean": {"subtasks": 2, "from": ["orders"], "origin": "",   (`describe_parts`)
                         "before": ["from orders", "where (price > 0)"], "then": []}, ...},
     "kept": {"totals": {"key": ..., ...}},        the meaning of a step's state (plan/fingerprint)
     "readings": {"totals": {"key": ["k"], ...}},  metadata for readers (state_reader)
     "sources": {"orders": [{"split": "in/a.jsonl", "number": 0, "position": 120, ...}]},
     "states": {"totals": [[...], [...]]},         by subtask, the state backend's documents
     "sinks": {"out": {"handles": [...], "writers": [...]}},
     "counts": {"parts": {"orders": [120, 118, 2, 0, 0], ...}, "failed": {}}}  (checkpoint/counters)

Handles are in the order in which they were prepared; each has the subtask that prepared it.

The pipeline may have changed since; `checkpoint/compatibility` decides whether the job may resume.
Only what the plan has a part for is restored, at any parallelism. The states of a step that stores
something else now have to be migrated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.api.snapshots import Manifest
from headrace.core.api.splits import Handle, Progress, Split, SubtaskId
from headrace.core.api.state import Document
from headrace.core.checkpoint.counters import JobCounters, PartCounters, add_snapshots
from headrace.core.coordination.messages import RestoredState, Snapshot, WriteManifest
from headrace.core.plan import nodes
from headrace.core.plan.canonical import list_clause_texts, location_text
from headrace.core.plan.fingerprint import build_fingerprints, has_new_layout
from headrace.core.plan.layout import enumerate_subtasks
from headrace.core.state_reader.reader_metadata import build_reader_metadata


@dataclass(frozen=True, slots=True)
class RestoredCheckpoint:
    """The content of a checkpoint from which a job resumes."""

    number: int
    is_final: bool
    restored_state: RestoredState
    handles: tuple[tuple[str, Handle], ...] = ()
    """The output to commit: sink and handle, in this order."""
    taken_at: str = ""
    migrated_steps: frozenset[str] = frozenset()
    """The steps whose states have to be migrated (`operators/migrated_state`)."""
    counters: JobCounters = field(default_factory=JobCounters)
    """The row counters at the checkpoint."""


def build_manifest(
    keep: WriteManifest,
    plan: nodes.Plan,
    version: str,
    taken_at: str,
    base: RestoredCheckpoint | None = None,
) -> dict[str, object]:
    """Build the document of a checkpoint; `base` is the one that the attempt resumed from."""
    kept = build_fingerprints(plan)
    before = base.counters if base else JobCounters()
    return {
        "version": version,
        "pipeline": plan.name,
        "time": taken_at,
        "ended": keep.is_final,
        "drained": keep.is_drained,
        "key_groups": plan.key_groups,
        "parts": describe_parts(plan),
        "kept": kept,
        "readings": build_reader_metadata(plan),
        "sources": {
            part.name: sorted(
                _describe_splits(part.name, keep.snapshots), key=lambda each: each["number"]
            )
            for part in plan
            if isinstance(part, nodes.Source)
        },
        "states": {step: _collect_states(step, plan, keep.snapshots) for step in kept},
        "sinks": {
            part.name: _describe_sink(part.name, plan, keep)
            for part in plan
            if isinstance(part, nodes.Sink)
        },
        "counts": add_snapshots(before, keep.snapshots.values()).to_document(),
    }


def describe_parts(plan: nodes.Plan) -> dict[str, dict[str, Any]]:
    """Describe each part: its subtasks, its producers, its origin or destination, and its clauses.

    `before` has the clauses upstream of its state, `then` the others.
    """
    parts = {}
    for part in plan:
        before, then = list_clause_texts(part)
        parts[part.name] = {
            "subtasks": part.parallelism,
            "from": list(dict.fromkeys(e.producer for e in plan.edges if e.consumer == part.name)),
            "origin": location_text(part),
            "before": before,
            "then": then,
        }
    return parts


def parse_manifest(
    number: int, document: Manifest, plan: nodes.Plan, fresh: Collection[str] = ()
) -> RestoredCheckpoint:
    """Return the checkpoint of a document, without the state of parts that start fresh."""
    said: Any = document
    parts, kept = describe_parts(plan), build_fingerprints(plan)
    stays = {n for n, was in said["parts"].items() if was["origin"] == _find_origin(parts, n)} - {
        *fresh
    }
    sources = {
        source: {
            Split(source, each["split"], each["number"]): _parse_progress(each) for each in splits
        }
        for source, splits in said["sources"].items()
        if source in stays
    }
    states = {
        step: tuple(document for subtask in by for document in subtask)
        for step, by in said["states"].items()
        if step in kept and step in stays
    }
    sinks = {sink: kept for sink, kept in said["sinks"].items() if sink in stays}
    writers = {
        sink: tuple(each for each in kept["writers"] if each is not None)
        for sink, kept in sinks.items()
    }
    handles = tuple(
        (sink, each["handle"]) for sink, kept in sinks.items() for each in kept["handles"]
    )
    changed = (step for step in states if has_new_layout(said["kept"][step], kept[step]))
    tallies = JobCounters.from_document(said["counts"])
    restored = RestoredState(sources, states, writers, tallies.failed_rows)
    return RestoredCheckpoint(
        number, said["ended"], restored, handles, said["time"], frozenset(changed), tallies
    )


def _find_origin(parts: Mapping[str, Mapping[str, Any]], name: str) -> object:
    return parts[name]["origin"] if name in parts else None


def count_written_rows(document: Manifest, plan: nodes.Plan) -> dict[str, int]:
    """Return the number of rows that each sink of the plan had received."""
    said: Any = document
    parts = JobCounters.from_document(said["counts"]).parts
    sinks = [part.name for part in plan if isinstance(part, nodes.Sink)]
    return {sink: parts.get(sink, PartCounters()).rows_in for sink in sinks}


def drop_committed_output(document: Manifest) -> Manifest:
    """Return the manifest with no output left to commit."""
    said: Any = document
    return {
        **said,
        "sinks": {name: {**kept, "handles": []} for name, kept in said["sinks"].items()},
    }


def _describe_splits(
    source: str, snapshots: Mapping[SubtaskId, Snapshot]
) -> Iterator[dict[str, Any]]:
    for snapshot in snapshots.values():
        for split, progress in snapshot.splits.items():
            if split.source == source:
                yield {
                    "split": split.name,
                    "number": split.number,
                    "position": progress.position,
                    "at_us": progress.watermark_us,
                    "rows": progress.rows,
                    "bad": progress.bad_records,
                    "ended": progress.is_finished,
                }


def _parse_progress(said: Mapping[str, Any]) -> Progress:
    return Progress(said["position"], said["at_us"], said["rows"], said["bad"], said["ended"])


def _collect_states(
    step: str, plan: nodes.Plan, snapshots: Mapping[SubtaskId, Snapshot]
) -> list[list[Document]]:
    ids = next(ids for task, ids in enumerate_subtasks(plan) if step in task.parts)
    return [list(snapshots[id].states.get(step, ())) for id in ids]


def _describe_sink(sink: str, plan: nodes.Plan, keep: WriteManifest) -> dict[str, object]:
    ids = next(ids for task, ids in enumerate_subtasks(plan) if sink in task.parts)
    handles = [{"subtask": id.index, "handle": handle} for id, handle in keep.handles if id in ids]
    return {"handles": handles, "writers": [keep.snapshots[id].writer for id in ids]}
