"""The small documents of a home or bucket, as typed values.

What a later version adds has a default, and unknown keys are ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, field

JobId: TypeAlias = Annotated[str, Meta(pattern=r"\A[0-9A-Za-z_-]+\Z")]
"""The id of a job, which is part of the names of its files."""
CheckpointNumber: TypeAlias = Annotated[int, Meta(ge=0)]


class JobDocument(msgspec.Struct):
    """`job.json`."""

    job: JobId = field(name="job")
    name: str = field(name="name", default="")
    since: str = field(name="since", default="")
    has_record: bool = field(name="recorded", default=False)
    """Whether the job has a completion record."""


class CommitRecordDocument(msgspec.Struct):
    """`visible.json`."""

    checkpoint: CheckpointNumber = field(name="checkpoint")


class CheckpointReturnDocument(msgspec.Struct):
    """A deliberate return to an older checkpoint, in `complete.json`."""

    to: CheckpointNumber = field(name="to")
    abandoned: CheckpointNumber = field(name="abandoned")


class CompletionRecordDocument(msgspec.Struct):
    """`complete.json` (`core/checkpoint/completion_record`)."""

    checkpoint: CheckpointNumber = field(name="checkpoint")
    taken_at: str = field(name="time", default="")
    rows: dict[str, int] = field(name="rows", default_factory=dict)
    going_back: CheckpointReturnDocument | None = field(name="returned", default=None)


class LocationDocument(msgspec.Struct):
    """`elsewhere.json`."""

    home: str = field(name="home")
    dir: str | None = field(name="dir")


class SinkOutputDocument(msgspec.Struct):
    """The output of a sink in `output.json`; the handles are the connector's."""

    handles: list[dict[str, Any]] = field(name="handles")
    rows: int = field(name="rows")


class BatchOutputDocument(msgspec.Struct):
    """`output.json` of a batch."""

    sinks: dict[str, SinkOutputDocument] = field(name="sinks")


class StoredRoundDocument(msgspec.Struct):
    """The stored round of a loop in `rounds.json`."""

    number: int = field(name="round")
    path: str = field(name="path")
    tables: list[str] = field(name="tables")
    bytes: int = field(name="bytes")
    rows_changed: int | None = field(name="rows_changed", default=None)


class StoredRoundsDocument(msgspec.Struct):
    """`rounds.json` of a batch; a loop has the name of its head."""

    fingerprint: str = field(name="fingerprint")
    loops: dict[str, StoredRoundDocument] = field(name="loops")


class OwnerDocument(msgspec.Struct):
    """`owner.json` of a bucket."""

    token: str = field(name="token")
    home: str = field(name="home")
    pid: int = field(name="pid")
    host: str = field(name="host")
    since: str = field(name="since")
    renewed: str = field(name="renewed")
    about: int | None = field(name="about", default=None)
    job: str | None = field(name="job", default=None)
    over: bool = field(name="over", default=False)


class LockDocument(msgspec.Struct):
    """`lock`."""

    pid: int = field(name="pid")
    host: str = field(name="host")
    since: str = field(name="since")
