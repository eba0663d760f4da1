"""The form of a manifest, to tell a damaged one from one that can be read.

It has what every landed version writes; keys of later versions have defaults, and unknown keys are
ignored. Documents of state backends and of connectors are checked by those that read them.

Names of states are checked here: a state under another name would be stored again and again, while
its step starts empty. The states that a plan declares do not tell which names are right, because
early versions did not declare all that they opened. So a manifest records the names that it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, field

from headrace.core.api.snapshots import Manifest
from headrace.core.api.stored_documents import MalformedDocument, convert_document

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Plain: TypeAlias = dict[str, Any]
StateNames: TypeAlias = list[list[list[str]]]
"""The sorted names of the states in each document of a step, by subtask."""


class PartDocument(msgspec.Struct):
    """A part of the pipeline."""

    subtasks: Annotated[int, Meta(ge=1)] = field(name="subtasks")
    producers: list[str] = field(name="from")
    location: str = field(name="origin")
    clauses_before: list[str] = field(name="before")
    clauses_after: list[str] = field(name="then")


class SplitDocument(msgspec.Struct):
    """The progress of reading a split."""

    split: str = field(name="split")
    number: Count = field(name="number")
    position: int | str | None = field(name="position")
    watermark_us: int | None = field(name="at_us")
    rows: Count = field(name="rows")
    bad_records: Count = field(name="bad")
    is_finished: bool = field(name="ended")
    identity: str | None = field(name="identity", default=None)


class CallDocument(msgspec.Struct):
    """The state of a call."""

    types: list[str] = field(name="of")
    columns: list[tuple[str, str]] = field(name="keeps")


class FingerprintDocument(msgspec.Struct):
    """The meaning of a step's state."""

    key: list[tuple[str, str]] = field(name="key")
    window: str = field(name="window")
    operation: str = field(name="does")
    calls: dict[str, CallDocument] = field(name="calls")
    aggregates: dict[str, list[str]] = field(name="aggregates")
    columns: dict[str, str] = field(name="columns")
    states: list[str] = field(name="states")
    lateness_us: int = field(name="lateness_us")
    ttl: str = field(name="ttl")
    has_having: bool = field(name="having")
    emitted_columns: list[str] = field(name="shows", default_factory=list)
    join_columns: tuple[list[str], list[str], bool] | None = field(name="laid_out", default=None)


class StatesDocument(msgspec.Struct):
    """The states of a step in some key groups; all but their names is the state backend's."""

    states: Plain = field(name="states")


class HandleDocument(msgspec.Struct):
    """Output to commit; the handle is the connector's."""

    handle: Plain = field(name="handle")


class SinkDocument(msgspec.Struct):
    """The output of a sink, and the states of its writers, which are the connector's."""

    handles: list[HandleDocument] = field(name="handles")
    writers: list[Plain | None] = field(name="writers")


class CountsDocument(msgspec.Struct):
    """The row counters."""

    parts: dict[str, tuple[int, int, int, int, int]] = field(name="parts")
    failed: dict[str, int] = field(name="failed")
    metrics: dict[str, Plain] = field(name="metrics", default_factory=dict)
    """The metrics of user code, by step."""


class TopDocument(msgspec.Struct):
    """The ranking of a step."""

    rows: Count = field(name="rows")
    by: list[str] = field(name="by")
    ties: Literal["rank", "dense_rank"] | None = field(name="ties", default=None)


class UserAggregateDocument(msgspec.Struct):
    """A user-defined aggregate."""

    call: str = field(name="call")
    columns: list[tuple[str, str]] = field(name="keeps")


class TriggerDocument(msgspec.Struct):
    """The trigger of a window."""

    every_us: int | None = field(name="every_us", default=None)
    count: int | None = field(name="count", default=None)
    uses_processing_time: bool = field(name="processing", default=False)
    code: str | None = field(name="python", default=None)


class EvictDocument(msgspec.Struct):
    """The evictor of a window."""

    last: int | None = field(name="last", default=None)
    within_us: int | None = field(name="within_us", default=None)
    code: str | None = field(name="python", default=None)


class WindowDocument(msgspec.Struct):
    """The window of a step."""

    shape: dict[str, dict[str, int]] = field(name="shape")
    lateness_us: int = field(name="lateness_us")
    uses_processing_time: bool = field(name="processing", default=False)
    trigger: TriggerDocument | None = field(name="trigger", default=None)
    keeps_rows: bool = field(name="accumulate", default=False)
    evict: EvictDocument | None = field(name="evict", default=None)


class ReadingDocument(msgspec.Struct):
    """The metadata to read the states of a step (`state_reader/reader_metadata`)."""

    key: list[str] = field(name="key")
    has_event_time: bool = field(name="timed", default=False)
    columns: dict[str, str] = field(name="columns", default_factory=dict)
    users: dict[str, UserAggregateDocument] = field(name="users", default_factory=dict)
    input_columns: dict[str, str] = field(name="of", default_factory=dict)
    top: TopDocument | None = field(name="top", default=None)
    process: dict[str, list[Any]] | None = field(name="process", default=None)
    join: Plain | None = field(name="join", default=None)
    window: WindowDocument | None = field(name="window", default=None)


class ManifestDocument(msgspec.Struct):
    """A manifest."""

    version: str = field(name="version")
    pipeline: str = field(name="pipeline")
    taken_at: str = field(name="time")
    is_final: bool = field(name="ended")
    is_drained: bool = field(name="drained")
    key_groups: Annotated[int, Meta(ge=1)] = field(name="key_groups")
    parts: dict[str, PartDocument] = field(name="parts")
    fingerprints: dict[str, FingerprintDocument] = field(name="kept")
    sources: dict[str, list[SplitDocument]] = field(name="sources")
    states: dict[str, list[list[StatesDocument]]] = field(name="states")
    sinks: dict[str, SinkDocument] = field(name="sinks")
    counts: CountsDocument = field(name="counts")
    state_names: dict[str, StateNames] | None = field(name="state_names", default=None)
    reader_metadata: dict[str, ReadingDocument] = field(name="readings", default_factory=dict)


def check_manifest(document: Manifest) -> None:
    """Check that a document is a manifest. Raises MalformedDocument."""
    manifest = convert_document(document, ManifestDocument)
    if missing := manifest.states.keys() ^ manifest.fingerprints.keys():
        raise MalformedDocument(f"it has only half of the state of {min(missing)}")
    named = {
        *manifest.states,
        *manifest.sources,
        *manifest.sinks,
        *(name for part in manifest.parts.values() for name in part.producers),
    }
    if missing := named - manifest.parts.keys():
        raise MalformedDocument(f"it does not describe the part {min(missing)}")
    if manifest.state_names is not None:
        _check_state_names(document, manifest.state_names)


def list_state_names(subtasks: Iterable[Iterable[Mapping[str, Any]]]) -> StateNames:
    """Return the names of the states in each document of a step, by subtask."""
    return [[sorted(document["states"]) for document in documents] for documents in subtasks]


def _check_state_names(manifest: Mapping[str, Any], recorded: Mapping[str, StateNames]) -> None:
    """Check that the states have the names that were recorded. Raises MalformedDocument."""
    found = {step: list_state_names(subtasks) for step, subtasks in manifest["states"].items()}
    if differing := recorded.keys() ^ found.keys():
        raise MalformedDocument(f"it has only half of the state of {min(differing)}")
    for step, names in found.items():
        if names != recorded[step]:
            has, wanted = _flatten(names), _flatten(recorded[step])
            if unknown := has - wanted:
                raise MalformedDocument(f"{step} has an unknown state {min(unknown)}")
            missing = min(wanted - has, default="in a subtask")
            raise MalformedDocument(f"{step} lacks its state {missing}")


def _flatten(names: StateNames) -> set[str]:
    return {name for documents in names for document in documents for name in document}
