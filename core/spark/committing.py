"""Atomic commit of a batch's output: all of it or nothing, even if the process is killed.

All handles that writers prepared are recorded first, which decides the batch; then they are
committed, and a mark says so. A run that finds a record or the mark only completes that commit.
Output that was prepared but not recorded has no owner, and is removed when sinks check their
destination (`check`): before a run, and after it too, because killed tasks may have left output or
produced it twice.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, cast

from headrace.core import faults
from headrace.core.blame import blamed
from headrace.core.contracts import ConnectorError, Notes
from headrace.core.ends import Ends
from headrace.core.messages import Handle
from headrace.core.snapshots import RefusedSnapshot
from headrace.core.state import Document

FRESH = "--fresh starts from scratch, and drops what is not committed"


class Kept(Protocol):
    """The part of a batch that outlives its process. Methods raise SnapshotError."""

    @property
    def job(self) -> str:
        """The batch's id, which is stable until `forget`."""
        ...

    @property
    def notes(self) -> Notes:
        """The durable notes of sinks."""
        ...

    def record(self, document: Document) -> None:
        """Record the output that must be committed; this decides the batch."""
        ...

    def recorded(self) -> Document | None:
        """Return the record of a batch whose commit is not complete."""
        ...

    def revoke(self) -> None:
        """Remove the record; nothing of it was committed."""
        ...

    def finish(self) -> None:
        """Mark the batch as committed."""
        ...

    def finished(self) -> bool:
        """Whether the batch is marked as committed."""
        ...

    def forget(self) -> None:
        """Remove record, mark and id in one step."""
        ...


@dataclass(frozen=True, slots=True)
class Remembered:
    """`Notes` in the memory of this process."""

    documents: dict[str, Document] = field(default_factory=dict)

    def read(self, name: str) -> Document | None:
        """Return the last document of this name."""
        return self.documents.get(name)

    def write(self, name: str, document: Document) -> None:
        """Store the document."""
        self.documents[name] = document


@dataclass(slots=True)
class NothingKept:
    """Commit log of a batch that no later run completes if the process is killed."""

    job: str = field(default_factory=lambda: uuid.uuid4().hex)
    notes: Notes = field(default_factory=Remembered)

    def record(self, document: Document) -> None:
        """Do nothing: no later run reads a record."""

    def recorded(self) -> Document | None:
        """Return None: nothing is recorded."""
        return None

    def revoke(self) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""

    def finished(self) -> bool:
        """Return False: a new batch has not finished."""
        return False

    def forget(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Written:
    """The output that a sink's writers prepared: handles to commit, and a row count."""

    handles: Sequence[Handle] = ()
    rows: int = 0


async def commit(ends: Ends, log: Kept, written: Mapping[str, Written]) -> None:
    """Commit all output, or none of it if the first commit is rejected for good."""
    faults.point("batch.prepared")
    log.record(_document(written))
    faults.point("batch.recorded")
    count = 0
    try:
        async for _ in _committed(ends, written):
            count += 1
            faults.point("batch.committed")
    except ConnectorError as error:
        if not count and (error.final or error.exit_status != 1):
            log.revoke()
        raise
    await end(ends, log)


async def end(ends: Ends, log: Kept) -> None:
    """Mark the batch as committed, and remove leftovers."""
    log.finish()
    faults.point("batch.finished")
    await sweep(ends)
    log.forget()
    faults.point("batch.forgotten")


async def sweep(ends: Ends) -> None:
    """Remove uncommitted output; the next run removes what cannot be reached now."""
    for sink in ends.sinks.values():
        with suppress(ConnectorError):
            await sink.check()


async def complete(ends: Ends, written: Mapping[str, Written]) -> None:
    """Commit the output that an earlier run recorded; some of it may be committed already."""
    for name in written:
        if name not in ends.sinks:
            message = f'the previous run has written sink "{name}" and not committed it yet'
            raise RefusedSnapshot(
                f"{message}; the pipeline has no such sink now", f"run the old pipeline; or {FRESH}"
            )
    try:
        async for _ in _committed(ends, written):
            faults.point("batch.committed")
    except ConnectorError as error:
        error.hint = "; ".join(filter(None, [error.hint, FRESH]))
        raise


async def _committed(ends: Ends, written: Mapping[str, Written]) -> AsyncIterator[None]:
    """Commit each handle, and yield after each commit."""
    for name, each in written.items():
        with blamed(name):
            for handle in each.handles:
                await ends.sinks[name].commit(handle)
                yield


def _document(written: Mapping[str, Written]) -> Document:
    sinks = {
        name: {"handles": list(each.handles), "rows": each.rows} for name, each in written.items()
    }
    return {"sinks": sinks}


def read(document: Document) -> dict[str, Written]:
    """Decode the recorded output."""
    sinks = cast("Mapping[str, Mapping[str, object]]", document["sinks"])
    return {
        name: Written(cast("Sequence[Handle]", each["handles"]), int(str(each["rows"])))
        for name, each in sinks.items()
    }
