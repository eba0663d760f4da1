"""The record of a connector: its specification, and functions that open it for nodes of the plan.

The opened objects are behind the protocols of `core/api`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.lookup_tables import LookupTable
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkCoordinator, WriterFactory
from headrace.core.api.sources import BatchSplitReader, ReaderFactory, SourceCoordinator
from headrace.core.api.splits import Handle, Position
from headrace.core.api.state import Document
from headrace.core.pipeline.connector_spec import ConnectorSpec, LookupSpec, SinkSpec, SourceSpec
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema
from headrace.core.types.lazy_dataclass import dataclass


def _accept_split(
    source: nodes.Source, name: str, position: Position, identity: str | None
) -> None:
    """Accept any split."""


def _accept_document(document: Document) -> None:
    """Accept any document."""


@dataclass(frozen=True, slots=True)
class SourceSide(SourceSpec):
    """The reading side of a connector, which can be opened."""

    open: Callable[[nodes.Source, RunContext], SourceCoordinator] | None = None
    """Opens the coordinator's half."""
    open_readers: Callable[[nodes.Source, RunContext, CoordinatorLink], ReaderFactory] | None = None
    """Opens the worker's half."""
    open_batch: Callable[[nodes.Source, RunContext], BatchSplitReader] | None = None
    """Opens the reader of a batch run; None: a batch run cannot read the connector."""
    check_split: Callable[[nodes.Source, str, Position, str | None], None] = _accept_split
    """Checks the name, the position and the identity of a split of a checkpoint; raises
    MalformedDocument."""
    describe_external: Callable[[nodes.Source, RunContext], Awaitable[str]] | None = None
    """Describes what there is to read, and changes nothing; raises ConnectorError. None: there is
    no external system to inspect."""


@dataclass(frozen=True, slots=True)
class SinkSide(SinkSpec):
    """The writing side of a connector, which can be opened."""

    open: Callable[[nodes.Sink, Schema, RunContext], SinkCoordinator] | None = None
    """Opens the coordinator's half."""
    open_writers: (
        Callable[[nodes.Sink, Schema, RunContext, CoordinatorLink], WriterFactory] | None
    ) = None
    """Opens the worker's half."""
    describe_external: Callable[[nodes.Sink, Schema, RunContext], Awaitable[str]] | None = None
    """Describes the destination, and changes nothing; raises ConnectorError. None: there is no
    external system to inspect."""
    check_handle: Callable[[Handle], None] = _accept_document
    """Checks the form of a stored handle; raises MalformedDocument."""
    check_writer: Callable[[Document], None] = _accept_document
    """Checks the form of a writer's stored state; raises MalformedDocument."""
    merge_handles: Callable[[Sequence[Handle]], Sequence[Handle]] = tuple
    """Merges the handles of all writers of a batch run, perhaps none, into those to commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupSide(LookupSpec):
    """The lookup side of a connector, which can be opened."""

    open: Callable[[nodes.Lookup, RunContext], LookupTable]
    describe_external: Callable[[nodes.Lookup, RunContext], Awaitable[str]]
    """Describes the table, and changes nothing; raises ConnectorError."""


@dataclass(frozen=True, slots=True)
class Connector(ConnectorSpec):
    """A connector whose sides can be opened."""

    source: SourceSide | None = None
    sink: SinkSide | None = None
    lookup: LookupSide | None = None


Connectors: TypeAlias = Mapping[str, Connector]
