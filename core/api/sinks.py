"""The contract of a sink: writers, and the two-phase commit of their output.

A sink has two halves, which may be in two processes (`coordinator_link`). A `SinkCoordinator` is
opened once for an attempt. A `WriterFactory` is opened in each process that runs subtasks of the
sink, and creates a `SinkWriter` for each. At a barrier each writer prepares its output; when the
checkpoint is complete, the coordinator's half commits it, by the handle alone. An `Encoder` is
synchronous and can be pickled, because Spark's executors use it unchanged."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import polars as pl

from headrace.core.api.splits import Handle
from headrace.core.api.state import Document


class Encoder(Protocol):
    """Encodes rows as bytes, each row ending in a line end. It can be pickled."""

    def encode(self, frame: pl.DataFrame) -> bytes:
        """Return the bytes of the rows."""
        ...


class SinkCoordinator(Protocol):
    """The coordinator's half of a sink, opened once for an attempt.

    Output is committed in two phases: at a barrier each writer prepares its output; when the
    checkpoint is complete, all that was prepared for it is committed here.
    """

    async def check(self) -> None:
        """Check that output can be written, and remove what earlier attempts left uncommitted.

        Called before anything is read. By then all output of the restored checkpoint has been
        committed, and no commit of it will be repeated; other prepared output of this job belongs
        to no checkpoint, and no writer is open. Raises ConnectorError.
        """
        ...

    async def describe_for_workers(self) -> Document:
        """Return what each `WriterFactory` must know; called after `check`."""
        ...

    async def answer(self, request: Document) -> Document:
        """Answer a request of a `WriterFactory`. Raises ConnectorError."""
        ...

    async def commit(self, handle: Handle) -> None:
        """Make prepared output visible. Idempotent: a commit may be repeated after a failure.

        The writer of the output may be closed already, and belong to another process or attempt.
        """
        ...

    def on_commits_recorded(self) -> None:
        """Note that no commit so far will be repeated: it is durably recorded that they are made.

        Called before the next checkpoint begins. Does not wait.
        """
        ...

    async def abort(self, handle: Handle) -> None:
        """Remove prepared output that must not become visible."""
        ...

    async def end_lost_writers(self, subtasks: Collection[int]) -> None:
        """Remove what the writers of these subtasks have left uncommitted; their process is gone.

        All output that they have prepared is committed or aborted before.
        """

    async def close(self) -> None:
        """End the attempt; all writers of the sink are closed before."""
        ...


class WriterFactory(Protocol):
    """The worker's half of a sink: opened in a process for all subtasks of the sink there."""

    def create_writer(self, subtask: int, states: Sequence[Document] = ()) -> SinkWriter:
        """Create the writer of one subtask.

        `states` has the states of all writers in the restored checkpoint; there may have been more
        or fewer of them than there are subtasks now.
        """
        ...

    async def close(self) -> None:
        """Release what the writers share; all of them are closed before."""
        ...


class SinkWriter(Protocol):
    """Writes the output of one subtask, which stays invisible until it is committed."""

    async def write(self, frame: pl.DataFrame) -> None:
        """Write rows. A batch of changelog rows has the column `_delete`."""
        ...

    async def prepare(self) -> Handle | None:
        """Make all written rows durable; return the handle to commit them, None without rows.

        `prepare` may be called several times before the first commit; handles are committed in the
        order in which they were prepared.
        """
        ...

    def snapshot_state(self) -> Document | None:
        """Return the state that the writers of the next attempt start with; follows `prepare`."""
        ...

    async def close(self) -> None:
        """Drop the rows written since the last `prepare`, and release all resources."""
        ...
