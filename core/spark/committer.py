"""Atomic commit of the output of a batch run: all of it or nothing, even if the process is killed.

All handles that writers prepared are recorded first, which decides the run; then they are
committed, and a mark says so. A run that finds a record or the mark only completes that commit.
Output that was prepared but not recorded has no owner, and is removed when sinks check their
destination (`check`): before a run, and after it too, because killed tasks may have left output or
produced it twice.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Protocol, cast

from headrace.core.api.failures import ConnectorError
from headrace.core.api.run_context import JobNotes
from headrace.core.api.snapshots import RefusedSnapshot
from headrace.core.api.splits import Handle
from headrace.core.api.state import Document
from headrace.core.errors import failpoints
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.connectors import OpenConnectors

FRESH_HINT = "--fresh starts from scratch, and discards output that was not committed"


class BatchCommitLog(Protocol):
    """The part of a batch run that outlives its process. Methods raise SnapshotError."""

    @property
    def job(self) -> str:
        """The id of the batch run, which is stable until `forget`."""
        ...

    @property
    def notes(self) -> JobNotes:
        """The durable notes of sinks."""
        ...

    @property
    def record_path(self) -> str:
        """The file of the record, for messages."""
        ...

    def record(self, document: Document) -> None:
        """Record the output that must be committed; this decides the run."""
        ...

    def read_record(self) -> Document | None:
        """Return the record of a batch run whose commit is not complete."""
        ...

    def revoke(self) -> None:
        """Remove the record; nothing of it was committed."""
        ...

    def finish(self) -> None:
        """Mark the batch run as committed."""
        ...

    def is_finished(self) -> bool:
        """Whether the batch run is marked as committed."""
        ...

    def forget(self) -> None:
        """Remove record, mark, id and the rounds of loops in one step."""
        ...

    @property
    def rounds_folder(self) -> str:
        """The folder for rounds of loops; empty if no later run finds it."""
        ...

    def record_rounds(self, document: Document) -> None:
        """Record the rounds of loops that are stored."""
        ...

    def read_rounds(self) -> Document | None:
        """Return the record of the stored rounds; None if there is none."""
        ...

    def discard_rounds(self) -> None:
        """Remove the record of the stored rounds."""
        ...


@dataclass(frozen=True, slots=True)
class InMemoryNotes:
    """`JobNotes` in the memory of this process."""

    documents: dict[str, Document] = field(default_factory=dict)

    def read(self, name: str) -> Document | None:
        """Return the last document of this name."""
        return self.documents.get(name)

    def write(self, name: str, document: Document) -> None:
        """Store the document."""
        self.documents[name] = document


@dataclass(slots=True)
class EphemeralCommitLog:
    """Commit log of a batch run that no later run completes if the process is killed."""

    job: str = field(default_factory=lambda: uuid.uuid4().hex)
    notes: JobNotes = field(default_factory=InMemoryNotes)
    record_path: str = ""
    rounds_folder: str = ""

    def record(self, document: Document) -> None:
        """Do nothing: no later run reads a record."""

    def read_record(self) -> Document | None:
        """Return None: nothing is recorded."""
        return None

    def revoke(self) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""

    def is_finished(self) -> bool:
        """Return False: a new batch run has not finished."""
        return False

    def forget(self) -> None:
        """Do nothing."""

    def record_rounds(self, document: Document) -> None:
        """Do nothing: no round is stored."""

    def read_rounds(self) -> Document | None:
        """Return None: no round is stored."""
        return None

    def discard_rounds(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class PreparedOutput:
    """The output that a sink's writers prepared: handles to commit, and a row count."""

    handles: Sequence[Handle] = ()
    rows: int = 0


async def commit_output(
    ends: OpenConnectors, log: BatchCommitLog, written: Mapping[str, PreparedOutput]
) -> None:
    """Commit all output, or none of it if the first commit is rejected for good."""
    failpoints.failpoint("batch.prepared")
    log.record(_encode_record(written))
    failpoints.failpoint("batch.recorded")
    count = 0
    try:
        async for _ in _commit_handles(ends, written):
            count += 1
            failpoints.failpoint("batch.committed")
    except ConnectorError as error:
        if not count and (error.is_final or error.exit_status != 1):
            log.revoke()
        raise
    await finish_batch(ends, log)


async def finish_batch(ends: OpenConnectors, log: BatchCommitLog) -> None:
    """Mark the batch run as committed, and remove leftovers."""
    log.finish()
    failpoints.failpoint("batch.finished")
    await remove_uncommitted(ends)
    log.forget()
    failpoints.failpoint("batch.forgotten")


async def remove_uncommitted(ends: OpenConnectors) -> None:
    """Remove uncommitted output; the next run removes what cannot be reached now."""
    for sink in ends.sinks.values():
        with suppress(ConnectorError):
            await sink.check()


async def complete_commit(ends: OpenConnectors, written: Mapping[str, PreparedOutput]) -> None:
    """Commit the output that an earlier run recorded; some of it may be committed already."""
    for name in written:
        if name not in ends.sinks:
            message = f'the previous run has written sink "{name}" and not committed it yet'
            raise RefusedSnapshot(
                f"{message}; the pipeline has no such sink now",
                f"run the old pipeline; or {FRESH_HINT}",
            )
    try:
        async for _ in _commit_handles(ends, written):
            failpoints.failpoint("batch.committed")
    except ConnectorError as error:
        error.hint = "; ".join(filter(None, [error.hint, FRESH_HINT]))
        raise


async def _commit_handles(
    ends: OpenConnectors, written: Mapping[str, PreparedOutput]
) -> AsyncIterator[None]:
    """Commit each handle, and yield after each commit."""
    for name, each in written.items():
        with attribute_errors_to(name):
            for handle in each.handles:
                await ends.sinks[name].commit(handle)
                yield


def _encode_record(written: Mapping[str, PreparedOutput]) -> Document:
    sinks = {
        name: {"handles": list(each.handles), "rows": each.rows} for name, each in written.items()
    }
    return {"sinks": sinks}


def decode_record(document: Document) -> dict[str, PreparedOutput]:
    """Decode the recorded output."""
    sinks = cast("Mapping[str, Mapping[str, object]]", document["sinks"])
    return {
        name: PreparedOutput(cast("Sequence[Handle]", each["handles"]), int(str(each["rows"])))
        for name, each in sinks.items()
    }
