"""What work inside of an executor is made with; it is sent there, so it can be pickled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.core.bench import Bench
from headrace.core.compile import Setting
from headrace.core.connector import Connectors
from headrace.core.contracts import PieceReader, Sink, Surroundings, Table
from headrace.core.plan import nodes
from headrace.core.snapshots import StoreError
from headrace.core.state import Document, StateBackend
from headrace.core.types import Schema


@dataclass(frozen=True, slots=True)
class Noted:
    """`Notes` that the driver has written: an executor has nowhere to write any."""

    documents: Mapping[str, Document]

    def read(self, name: str) -> Document | None:
        """What the driver wrote."""
        return self.documents.get(name)

    def write(self, name: str, document: Document) -> None:
        """That cannot be."""
        raise StoreError("nothing can be noted in an executor", "run it again")


@dataclass(frozen=True, slots=True)
class Inside:
    """How sources, operators and sinks are made in an executor."""

    pipeline: str
    folder: Path
    """The pipeline's folder."""
    job: str
    """The run's id."""
    connectors: Connectors
    backend: Callable[[str], StateBackend]
    """Where operators keep state; what that has on disk is in a folder."""
    key_groups: int
    read: frozenset[str]
    """The streams that somebody reads."""
    noted: Mapping[str, Document] = field(default_factory=dict)
    """What sinks have noted before there was anything to write."""

    @contextmanager
    def surroundings(self) -> Iterator[Surroundings]:
        """What a source or sink is told."""
        with ThreadPoolExecutor(2, thread_name_prefix="headrace") as executor:
            bench, notes = Bench(executor), Noted(self.noted)
            yield Surroundings(self.folder, self.job, bench, pipeline=self.pipeline, notes=notes)

    @contextmanager
    def setting(self) -> Iterator[Setting]:
        """What operators are made with."""
        with TemporaryDirectory(prefix="headrace-") as folder:
            backend = self.backend(folder)
            yield Setting(lambda: time.time_ns() // 1000, self.folder, self.read, backend)

    def pieces(self, source: nodes.Source, surroundings: Surroundings) -> PieceReader:
        """What finds the pieces of a source, and reads them."""
        side = self.connectors[source.connector].source
        assert side is not None and side.pieces is not None, source.connector
        return side.pieces(source, surroundings)

    def table(self, lookup: nodes.Lookup, surroundings: Surroundings) -> Table:
        """The table that a lookup asks, opened."""
        side = self.connectors[lookup.connector].lookup
        assert side is not None, lookup.connector
        return side.open(lookup, surroundings)

    def sink(self, sink: nodes.Sink, schema: Schema, surroundings: Surroundings) -> Sink:
        """The sink, opened."""
        side = self.connectors[sink.connector].sink
        assert side is not None and side.open is not None, sink.connector
        return side.open(sink, schema, surroundings)
