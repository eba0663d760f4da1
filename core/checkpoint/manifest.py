"""A checkpoint as the document in its manifest, and back.

Parts are identified by name, not by number.

    {"version": ..., "pipeline": ..., "ended": false, "drained": false, "key_groups": 128,
     "parts": {"clean": {"subtasks": 2, "from": ["orders"], "origin": "",   (`PartDescription`)
                         "before": ["from orders", "where (price > 0)"], "then": []}, ...},
     "kept": {"totals": {"key": ..., ...}},        the meaning of a step's state (plan/fingerprint)
     "readings": {"totals": {"key": ["k"], ...}},  metadata for readers (state_reader)
     "sources": {"orders": [{"split": "in/a.jsonl", "number": 0, "position": 120,
                             "rows": 9, ..., "identity": ...}]},      if the source gives one
     "states": {"totals": [[...], [...]]},         by subtask, the state backend's documents
     "state_names": {"totals": [[["windows"]], [["windows"]]]},    those in each document
     "sinks": {"out": {"handles": [...], "writers": [...]}},
     "counts": {"parts": {"orders": [120, 118, 2, 0, 0], ...}, "failed": {}}}  (checkpoint/counters)

Handles are in the order in which they were prepared; each has the subtask that prepared it.

The pipeline may have changed since; `checkpoint/compatibility` decides whether the job may resume.
Only what the plan has a part for is restored, at any parallelism. The states of a step that stores
something else now have to be migrated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import Any, TypeAlias, TypeVar

from headrace.core.api.snapshots import Manifest
from headrace.core.api.splits import Handle, Progress, Split, SubtaskId
from headrace.core.api.state import Document
from headrace.core.checkpoint.counters import JobCounters, add_snapshots
from headrace.core.checkpoint.manifest_document import list_state_names
from headrace.core.coordination.messages import RestoredState, Snapshot, WriteManifest
from headrace.core.plan import nodes
from headrace.core.plan.canonical import list_clause_texts, location_text
from headrace.core.plan.fingerprint import Fingerprint, build_fingerprints, parse_fingerprint
from headrace.core.plan.layout import enumerate_subtasks
from headrace.core.plan.plan_cache import cache_by_plan
from headrace.core.state_reader.reader_metadata import build_reader_metadata
from headrace.core.types.lazy_dataclass import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PartDescription:
    """A part of a plan, as far as checkpoints of it are compared with other plans."""

    parallelism: int
    producers: tuple[str, ...]
    location: str
    """The origin of a source, the destination of a sink; else empty."""
    clauses_before: tuple[str, ...]
    """The clauses upstream of its state."""
    clauses_after: tuple[str, ...]

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> PartDescription:
        """Parse the stored form."""
        return cls(
            document["subtasks"],
            tuple(document["from"]),
            document["origin"],
            tuple(document["before"]),
            tuple(document["then"]),
        )

    def to_document(self) -> dict[str, object]:
        """Return the stored form."""
        return {
            "subtasks": self.parallelism,
            "from": self.producers,
            "origin": self.location,
            "before": self.clauses_before,
            "then": self.clauses_after,
        }


PartDescriptions: TypeAlias = Mapping[str, PartDescription]


@dataclass(frozen=True, slots=True)
class CheckpointContent:
    """The content of a manifest, except for what only readers of state use."""

    taken_at: str
    is_final: bool
    is_drained: bool
    key_groups: int
    parts: PartDescriptions
    fingerprints: Mapping[str, Fingerprint]
    """The meaning of the state, by step."""
    state: RestoredState
    handles: tuple[tuple[str, Handle], ...]
    """The output to commit: sink and handle, in this order."""
    counters: JobCounters


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
    """The steps whose states have to be migrated (`operators/state_migration`)."""
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
    fingerprints = build_fingerprints(plan)
    before = base.counters if base else JobCounters()
    subtasks = {part: ids for task, ids in enumerate_subtasks(plan) for part in task.parts}
    states = {step: _collect_states(step, subtasks[step], keep) for step in fingerprints}
    return {
        "version": version,
        "pipeline": plan.name,
        "time": taken_at,
        "ended": keep.is_final,
        "drained": keep.is_drained,
        "key_groups": plan.key_groups,
        "parts": {name: part.to_document() for name, part in describe_parts(plan).items()},
        "kept": {step: each.to_document() for step, each in fingerprints.items()},
        "readings": build_reader_metadata(plan),
        "sources": {
            part.name: sorted(
                _describe_splits(part.name, keep.snapshots), key=lambda each: each["number"]
            )
            for part in plan
            if isinstance(part, nodes.Source)
        },
        "states": states,
        "state_names": {step: list_state_names(subtasks) for step, subtasks in states.items()},
        "sinks": {
            part.name: _describe_sink(subtasks[part.name], keep)
            for part in plan
            if isinstance(part, nodes.Sink)
        },
        "counts": add_snapshots(
            add_snapshots(before, keep.earlier_snapshots), keep.snapshots.values()
        ).to_document(),
    }


@cache_by_plan
def describe_parts(plan: nodes.Plan) -> Mapping[str, PartDescription]:
    """Describe each part of a plan."""
    parts, producers = {}, dict[str, dict[str, None]]()
    for edge in plan.edges:
        producers.setdefault(edge.consumer, {})[edge.producer] = None
    for part in plan:
        before, after = list_clause_texts(part)
        inputs = tuple(producers.get(part.name, ()))
        parts[part.name] = PartDescription(
            part.parallelism, inputs, location_text(part), tuple(before), tuple(after)
        )
    return parts


def parse_manifest(manifest: Manifest) -> CheckpointContent:
    """Parse the content of a manifest."""
    document: Any = manifest
    sinks, counters = document["sinks"], JobCounters.from_document(document["counts"])
    state = RestoredState(
        {source: _parse_splits(source, each) for source, each in document["sources"].items()},
        {step: tuple(chain.from_iterable(each)) for step, each in document["states"].items()},
        {n: tuple(w for w in sink["writers"] if w is not None) for n, sink in sinks.items()},
        counters.failed_rows,
    )
    return CheckpointContent(
        taken_at=document["time"],
        is_final=document["ended"],
        is_drained=document["drained"],
        key_groups=document["key_groups"],
        parts={n: PartDescription.from_document(part) for n, part in document["parts"].items()},
        fingerprints={step: parse_fingerprint(step, document["kept"]) for step in document["kept"]},
        state=state,
        handles=tuple((n, h["handle"]) for n, sink in sinks.items() for h in sink["handles"]),
        counters=counters,
    )


def _parse_splits(source: str, splits: Iterable[Mapping[str, Any]]) -> dict[Split, Progress]:
    return {
        Split(source, each["split"], each["number"]): Progress(
            each["position"],
            each["at_us"],
            each["rows"],
            each["bad"],
            each["ended"],
            each.get("identity"),
        )
        for each in splits
    }


def restore_checkpoint(
    number: int, manifest: Manifest, plan: nodes.Plan, fresh: Collection[str] = ()
) -> RestoredCheckpoint:
    """Return the checkpoint of a manifest, without the state of parts that start fresh."""
    content = parse_manifest(manifest)
    parts, fingerprints = describe_parts(plan), build_fingerprints(plan)
    same = {
        name
        for name, was in content.parts.items()
        if name in parts and name not in fresh and was.location == parts[name].location
    }
    state = RestoredState(
        _select(content.state.splits, same),
        _select(content.state.states, same & fingerprints.keys()),
        _select(content.state.writers, same),
        content.state.failed_rows,
    )
    before = content.fingerprints
    return RestoredCheckpoint(
        number,
        content.is_final,
        state,
        tuple((sink, handle) for sink, handle in content.handles if sink in same),
        content.taken_at,
        frozenset(s for s in state.states if before[s].layout != fingerprints[s].layout),
        content.counters,
    )


def _select(values: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    return {name: value for name, value in values.items() if name in names}


def drop_committed_output(document: Manifest) -> Manifest:
    """Return the manifest with no output left to commit."""
    sinks: Any = document["sinks"]
    return {**document, "sinks": {name: {**sink, "handles": []} for name, sink in sinks.items()}}


def _describe_splits(
    source: str, snapshots: Mapping[SubtaskId, Snapshot]
) -> Iterator[dict[str, Any]]:
    for snapshot in snapshots.values():
        for split, progress in snapshot.splits.items():
            if split.source == source:
                identity = {} if progress.identity is None else {"identity": progress.identity}
                yield {
                    "split": split.name,
                    "number": split.number,
                    "position": progress.position,
                    "at_us": progress.watermark_us,
                    "rows": progress.rows,
                    "bad": progress.bad_records,
                    "ended": progress.is_finished,
                    **identity,
                }


def _collect_states(
    step: str, subtasks: Sequence[SubtaskId], keep: WriteManifest
) -> list[list[Document]]:
    return [list(keep.snapshots[id].states.get(step, ())) for id in subtasks]


def _describe_sink(subtasks: Sequence[SubtaskId], keep: WriteManifest) -> dict[str, object]:
    handles = [
        {"subtask": id.index, "handle": handle} for id, handle in keep.handles if id in subtasks
    ]
    return {"handles": handles, "writers": [keep.snapshots[id].writer for id in subtasks]}
