"""The contract of a sink: writers, and the two-phase commit of their output.

A `SinkConnector` is opened once for an attempt and creates a `SinkWriter` for each subtask. At a
barrier each writer prepares its output; when the checkpoint is complete, the sink commits it. An
`Encoder` is synchronous and can be pickled, because Spark's executors use it unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import polars as pl

from headrace.core.api.splits import Handle
from headrace.core.api.state import Document


class Encoder(Protocol):
    """Encodes rows as bytes, each row ending in a line end. It can be pickled."""

    def encode(self, frame: pl.DataFrame) -> bytes:
        """Return the bytes of the rows."""
        ...


class SinkConnector(Protocol):
    """The writing side of a connector in a run. One is shared by all subtasks of an attempt.

    Output is committed in two phases: at a barrier each writer prepares its output; when the
    checkpoint is complete, the sink commits all that was prepared for it.
    """

    async def check(self) -> None:
        """Check that output can be written, and remove what earlier attempts left uncommitted.

        Called before anything is read. By then all output of the restored checkpoint has been
        committed, and no commit of it will be repeated; other prepared output of this job belongs
        to no checkpoint. Raises ConnectorError.
        """
        ...

    def create_writer(self, subtask: int, states: Sequence[Document] = ()) -> SinkWriter:
        """Create the writer of one subtask.

        `states` has the states of all writers in the restored checkpoint; there may have been more
        or fewer of them than there are subtasks now.
        """
        ...

    async def commit(self, handle: Handle) -> None:
        """Make prepared output visible. Idempotent: a commit may be repeated after a failure.

        The writer of the output may be closed already. Before the next barrier arrives, all output
        of the checkpoint has been committed, and no commit of it will be repeated.
        """
        ...

    async def abort(self, handle: Handle) -> None:
        """Remove prepared output that must not become visible."""
        ...

    async def close(self) -> None:
        """End the attempt; all writers of the sink are closed before."""
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
