"""The rows of a query in memory, as the output of a job: the table that its changes make.

Changes are folded into the table as they come, so that at most twice its rows are held.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from headrace.core.api.coordinator_link import StandaloneCoordinator
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkWriter
from headrace.core.api.splits import Handle
from headrace.core.api.state import Document
from headrace.core.operators.changelog.weighted_rows import consolidate, repeat_rows
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, SinkSide
from headrace.core.types.data_types import Schema, to_polars
from headrace.core.types.elements import DELETE, WEIGHT
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

MIN_PENDING_ROWS = 100_000
"""The number of rows that may wait to be folded into a small table."""


class CollectedRowsOptions(DocumentModel):
    """The options: none."""


@dataclass(slots=True)
class CollectedRows:
    """A table, and the connector whose sink writes into it. The job has one such sink, with one
    subtask in this process.

    `enough` is the number of rows after which the job is stopped, if rows are only added.
    """

    enough: int | None = None
    kind: nodes.StreamKind = field(default_factory=nodes.Append)
    """The kind of the stream that is collected."""
    _columns: tuple[str, ...] = ()
    _has_removals: bool = False
    _table: pl.DataFrame | None = None
    """The rows, with WEIGHT, the number of its copies, if equal rows are counted."""
    _pending: list[pl.DataFrame] = field(default_factory=list)
    _pending_rows: int = 0

    def build_connector(self, name: str) -> Connector:
        """Build the connector."""
        return Connector(
            name,
            "The rows of a query.",
            sink=SinkSide(
                CollectedRowsOptions,
                open=self._open_sink,
                open_writers=lambda sink, schema, context, _: self._open_sink(
                    sink, schema, context
                ),
                prints_rows=True,
                takes_removed_rows=True,
            ),
        )

    def take_rows(self, schema: Schema) -> pl.DataFrame:
        """Return the rows of the table in columns of this schema, and forget them."""
        rows = self.peek_rows(schema)
        self.clear()
        return rows

    def peek_rows(self, schema: Schema) -> pl.DataFrame:
        """Return the rows of the table so far in columns of this schema."""
        import polars as pl

        self._fold()
        rows = self._table
        if rows is None:
            return pl.DataFrame(schema={field.name: to_polars(field.type) for field in schema})
        return (repeat_rows(rows) if WEIGHT in rows.columns else rows).select(schema.names)

    def clear(self) -> None:
        """Drop all rows: the job begins again."""
        self._table, self._pending, self._pending_rows = None, [], 0

    def add_rows(self, frame: pl.DataFrame) -> bool:
        """Add a batch; return whether there are enough rows."""
        self._pending.append(frame.select(self._columns))
        self._pending_rows += frame.height
        held = 0 if self._table is None else self._table.height
        is_added_only = isinstance(self.kind, nodes.Append)
        if not is_added_only and self._pending_rows > max(held, MIN_PENDING_ROWS):
            self._fold()
        return (
            is_added_only and self.enough is not None and held + self._pending_rows >= self.enough
        )

    def _fold(self) -> None:
        import polars as pl

        if not self._pending:
            return
        added = pl.concat(self._pending, rechunk=False)
        before, self._pending, self._pending_rows = self._table, [], 0
        if not self._has_removals:
            self._table = self._keep_last(added if before is None else pl.concat([before, added]))
            return
        removed = pl.col(DELETE).fill_null(False)
        if isinstance(self.kind, nodes.Upsert):
            if before is not None:
                added = pl.concat([before.with_columns(pl.lit(False).alias(DELETE)), added])
            self._table = self._keep_last(added).filter(~removed).drop(DELETE)
            return
        added = added.with_columns((1 - 2 * removed.cast(pl.Int64)).alias(WEIGHT)).drop(DELETE)
        self._table = consolidate(added if before is None else pl.concat([before, added]))

    def _keep_last(self, rows: pl.DataFrame) -> pl.DataFrame:
        if not isinstance(self.kind, nodes.Upsert):
            return rows
        if not self.kind.key:
            return rows.tail(1)
        return rows.unique(subset=self.kind.key, keep="last", maintain_order=True)

    def _open_sink(self, sink: nodes.Sink, schema: Schema, context: RunContext) -> CollectingSink:
        self._has_removals = DELETE in schema.names
        self._columns = schema.names
        return CollectingSink(self, context)


@dataclass(slots=True)
class CollectingSink(StandaloneCoordinator):
    """Both halves of the sink."""

    rows: CollectedRows
    run_context: RunContext

    async def check(self) -> None:
        """Do nothing: memory takes any rows."""

    def create_writer(self, subtask: int, states: Sequence[Document] = ()) -> SinkWriter:
        """Drop the rows of an attempt before, and return a writer."""
        self.rows.clear()
        return CollectingWriter(self)

    async def commit(self, handle: Handle) -> None:
        """Do nothing: rows are visible when the job has ended."""

    def on_commits_recorded(self) -> None:
        """Do nothing: there are no commits."""

    async def abort(self, handle: Handle) -> None:
        """Do nothing: there are no commits."""

    async def end_lost_writers(self, subtasks: Collection[int]) -> None:
        """Do nothing: the next writer drops all rows."""

    async def close(self) -> None:
        """Do nothing: no resource is open."""


@dataclass(slots=True)
class CollectingWriter:
    """The `SinkWriter` of the sink."""

    sink: CollectingSink
    _is_done: bool = False

    async def write(self, frame: pl.DataFrame) -> None:
        """Add a batch, unless there are enough rows; request the end of the job if there are."""
        if self._is_done:
            return
        self._is_done = self.sink.rows.add_rows(frame)
        if self._is_done:
            self.sink.run_context.request_stop()

    async def prepare(self) -> Handle | None:
        """Return None: rows need no commit."""
        return None

    def snapshot_state(self) -> Document | None:
        """Return None: the next attempt begins again."""
        return None

    async def close(self) -> None:
        """Do nothing: no resource is open."""
