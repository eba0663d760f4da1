"""What a batch has written becomes visible: all of it, or nothing, whenever somebody kills it.

All that writers prepared is put on record, which decides it; then it is committed, and that is
marked. A run that finds a record, or the mark, only brings that to its end. What is prepared and on
no record belongs to nobody, and goes when sinks look whether output can go there (`check`): before
a run, and behind it as well, for tasks that were killed have left something, or done it twice.
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

FRESH = "--fresh begins anew, and gives up what is not committed"


class Kept(Protocol):
    """What of a batch outlives its process. Raises SnapshotError."""

    @property
    def job(self) -> str:
        """Its id, which stays until it is forgotten."""
        ...

    @property
    def notes(self) -> Notes:
        """What sinks must not forget."""
        ...

    def record(self, document: Document) -> None:
        """Decide it: all of this is to be committed."""
        ...

    def recorded(self) -> Document | None:
        """What was decided, if that is not over."""
        ...

    def revoke(self) -> None:
        """Have it undecided: nothing of it was committed."""
        ...

    def finish(self) -> None:
        """Mark that all is committed."""
        ...

    def finished(self) -> bool:
        """Whether it was."""
        ...

    def forget(self) -> None:
        """Have no record, and no id, all at once."""
        ...


@dataclass(frozen=True, slots=True)
class Remembered:
    """`Notes` of this process."""

    documents: dict[str, Document] = field(default_factory=dict)

    def read(self, name: str) -> Document | None:
        """What was written last."""
        return self.documents.get(name)

    def write(self, name: str, document: Document) -> None:
        """Remember it."""
        self.documents[name] = document


@dataclass(slots=True)
class NothingKept:
    """Of a batch that nobody brings to its end if it is killed."""

    job: str = field(default_factory=lambda: uuid.uuid4().hex)
    notes: Notes = field(default_factory=Remembered)

    def record(self, document: Document) -> None:
        """Nobody reads it."""

    def recorded(self) -> Document | None:
        """Nothing."""
        return None

    def revoke(self) -> None:
        """There is nothing to revoke."""

    def finish(self) -> None:
        """Nobody asks."""

    def finished(self) -> bool:
        """Nobody said so."""
        return False

    def forget(self) -> None:
        """There is nothing to forget."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a sink's writers have written: to be committed, and how many rows."""

    handles: Sequence[Handle] = ()
    rows: int = 0


async def commit(ends: Ends, kept: Kept, written: Mapping[str, Written]) -> None:
    """Have all of it visible; or nothing, where already the first commit is refused for good."""
    faults.point("batch.prepared")
    kept.record(_document(written))
    faults.point("batch.recorded")
    count = 0
    try:
        async for _ in _committed(ends, written):
            count += 1
            faults.point("batch.committed")
    except ConnectorError as error:
        if not count and (error.final or error.exit_status != 1):
            kept.revoke()
        raise
    await end(ends, kept)


async def end(ends: Ends, kept: Kept) -> None:
    """All is committed: mark it, and have nothing left over."""
    kept.finish()
    faults.point("batch.finished")
    await sweep(ends)
    kept.forget()
    faults.point("batch.forgotten")


async def sweep(ends: Ends) -> None:
    """Have nothing left of what is not committed; what cannot be reached now, the next run ends."""
    for sink in ends.sinks.values():
        with suppress(ConnectorError):
            await sink.check()


async def complete(ends: Ends, written: Mapping[str, Written]) -> None:
    """Commit what a run before has decided; some of it may be committed already."""
    for name in written:
        if name not in ends.sinks:
            message = f'the run before has written sink "{name}", and not committed it yet'
            raise RefusedSnapshot(
                f"{message}; now there is no such sink", f"run it as it was; or {FRESH}"
            )
    try:
        async for _ in _committed(ends, written):
            faults.point("batch.committed")
    except ConnectorError as error:
        error.hint = "; ".join(filter(None, [error.hint, FRESH]))
        raise


async def _committed(ends: Ends, written: Mapping[str, Written]) -> AsyncIterator[None]:
    """Gives something behind each commit."""
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
    """What was put on record."""
    sinks = cast("Mapping[str, Mapping[str, object]]", document["sinks"])
    return {
        name: Written(cast("Sequence[Handle]", each["handles"]), int(str(each["rows"])))
        for name, each in sinks.items()
    }
