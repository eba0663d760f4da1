"""What work inside of an executor is made with; it is sent there, so it can be pickled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.core.bench import Bench
from headrace.core.compile import Setting
from headrace.core.connector import Connectors
from headrace.core.contracts import Sink, Source, Surroundings
from headrace.core.plan import nodes
from headrace.core.state import StateBackend
from headrace.core.types import Schema


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

    @contextmanager
    def surroundings(self) -> Iterator[Surroundings]:
        """What a source or sink is told."""
        with ThreadPoolExecutor(2, thread_name_prefix="headrace") as executor:
            yield Surroundings(self.folder, self.job, Bench(executor), pipeline=self.pipeline)

    @contextmanager
    def setting(self) -> Iterator[Setting]:
        """What operators are made with."""
        with TemporaryDirectory(prefix="headrace-") as folder:
            backend = self.backend(folder)
            yield Setting(lambda: time.time_ns() // 1000, self.folder, self.read, backend)

    def source(self, source: nodes.Source, surroundings: Surroundings) -> Source:
        """The source, opened."""
        side = self.connectors[source.connector].source
        assert side is not None and side.open is not None, source.connector
        return side.open(source, surroundings)

    def sink(self, sink: nodes.Sink, schema: Schema, surroundings: Surroundings) -> Sink:
        """The sink, opened."""
        side = self.connectors[sink.connector].sink
        assert side is not None and side.open is not None, sink.connector
        return side.open(sink, schema, surroundings)
