"""Context of the work inside an executor. Sent there with the work, so it can be pickled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.lookup_tables import LookupTable
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkCoordinator, WriterFactory
from headrace.core.api.snapshots import StoreError
from headrace.core.api.sources import BatchSplitReader
from headrace.core.api.state import Document
from headrace.core.api.state_backend import StateBackend
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connectors
from headrace.core.types.data_types import Schema
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DriverNotes:
    """`Notes` that the driver has written. Read-only: an executor has no place to write them."""

    documents: Mapping[str, Document]

    def read(self, name: str) -> Document | None:
        """Return the driver's document of this name."""
        return self.documents.get(name)

    def write(self, name: str, document: Document) -> None:
        """Raise StoreError."""
        raise StoreError("an executor cannot write notes", "run it again")


@dataclass(frozen=True, slots=True)
class ExecutorContext:
    """Factories of sources, operators and sinks in an executor."""

    pipeline: str
    folder: Path
    """The pipeline's folder."""
    job: str
    """The id of the run."""
    connectors: Connectors
    make_state_backend: Callable[[str], StateBackend]
    """The state backend of operators, given a folder for its files."""
    key_groups: int
    read_streams: frozenset[str]
    """The streams that have a reader."""
    sink_notes: Mapping[str, Document] = field(default_factory=dict)
    """The notes that sinks made before any row was written."""

    @contextmanager
    def open_run_context(self) -> Iterator[RunContext]:
        """Open the run context of a source or sink."""
        with ThreadPoolExecutor(2, thread_name_prefix="headrace") as executor:
            kernel_executor, notes = KernelExecutor(executor), DriverNotes(self.sink_notes)
            yield RunContext(
                self.folder, self.job, kernel_executor, pipeline_name=self.pipeline, notes=notes
            )

    @contextmanager
    def open_operator_context(self) -> Iterator[OperatorContext]:
        """Open the context that operators are built with."""
        with TemporaryDirectory(prefix="headrace-") as folder:
            backend = self.make_state_backend(folder)
            yield OperatorContext(
                lambda: time.time_ns() // 1000, self.folder, self.read_streams, backend
            )

    def open_split_reader(self, source: nodes.Source, run_context: RunContext) -> BatchSplitReader:
        """Open the reader that finds and reads the splits of a source."""
        side = self.connectors[source.connector].source
        assert side is not None and side.open_batch is not None, source.connector
        return side.open_batch(source, run_context)

    def open_lookup_table(self, lookup: nodes.Lookup, run_context: RunContext) -> LookupTable:
        """Open the table of a lookup."""
        side = self.connectors[lookup.connector].lookup
        assert side is not None, lookup.connector
        return side.open(lookup, run_context)

    def open_sink(
        self, sink: nodes.Sink, schema: Schema, run_context: RunContext
    ) -> SinkCoordinator:
        """Open the coordinator's half of the sink."""
        side = self.connectors[sink.connector].sink
        assert side is not None and side.open is not None, sink.connector
        return side.open(sink, schema, run_context)

    def open_writers(
        self, sink: nodes.Sink, schema: Schema, run_context: RunContext, link: CoordinatorLink
    ) -> WriterFactory:
        """Open the worker's half of the sink."""
        side = self.connectors[sink.connector].sink
        assert side is not None and side.open_writers is not None, sink.connector
        return side.open_writers(sink, schema, run_context, link)
