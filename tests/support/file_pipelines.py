"""Pipelines over real files, run with the real runtime; and sources and sinks opened alone."""

from __future__ import annotations

import asyncio
import gzip
import sys
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from headrace.connectors.files.connector import BLOCK_BYTES, build_connector
from headrace.connectors.files.source import FolderReaders
from headrace.connectors.memory import InMemoryData
from headrace.connectors.registry import REGISTRY
from headrace.connectors.thread_adapters import (
    BlockingSink,
    BlockingSource,
    ThreadedSink,
    ThreadedSource,
)
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkWriter, WriterFactory
from headrace.core.api.sources import Chunk, RecordReader, SourceCoordinator
from headrace.core.api.splits import Handle, Position, Split
from headrace.core.api.state import Document
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.job.job import Job, JobOutcome
from headrace.core.job.spec import JobSpec
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connectors
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.memory_pipelines import plan_of, rows

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Coding: TypeAlias = Callable[[bytes], bytes]
PACK: dict[str, Coding] = {"": bytes, ".gz": gzip.compress, ".zst": zstd.compress}
UNPACK: dict[str, Coding] = {"": bytes, ".gz": gzip.decompress, ".zst": zstd.decompress}

JOB = "0123456789abcdef" * 2
OTHER_JOB = "fedcba9876543210" * 2


def connectors_of(memory: InMemoryData | None = None, block: int = BLOCK_BYTES) -> Connectors:
    """Return all connectors; files are read in blocks of that size."""
    return {
        **REGISTRY,
        "files": build_connector(block),
        "memory": (memory or InMemoryData()).build_connector(),
    }


def run(
    folder: Path,
    text: str,
    *,
    memory: InMemoryData | None = None,
    block: int = BLOCK_BYTES,
    limit: int | None = None,
    job: str = JOB,
) -> JobOutcome:
    """Run a pipeline in threads; raises ConnectorError for what is refused before it begins."""
    with ThreadPoolExecutor(4) as executor:
        over = job_over(
            folder, text, KernelExecutor(executor), memory=memory, block=block, limit=limit, job=job
        )
        return asyncio.run(over.run())


def job_over(
    folder: Path,
    text: str,
    bench: KernelExecutor,
    *,
    memory: InMemoryData | None = None,
    block: int = BLOCK_BYTES,
    limit: int | None = None,
    job: str = JOB,
) -> Job:
    """A job that is not running yet."""
    connectors = connectors_of(memory, block)
    plan = plan_of(folder, text, connectors)
    read = frozenset(edge.stream for edge in plan.edges)
    setting = OperatorContext(lambda: 0, folder, read, MemoryBackend())
    surroundings = RunContext(folder, job, bench, limit)
    return Job(JobSpec(plan, connectors, surroundings, setting))


def source_of(
    folder: Path, text: str, *, block: int = BLOCK_BYTES, limit: int | None = None
) -> tuple[BlockingSource, RecordReader]:
    """The source `s` of `sources:`, opened alone, and its reader; work is done on the loop."""
    connectors = connectors_of(block=block)
    plan = plan_of(
        folder, f"sources:\n  s: {text}\nsinks:\n  o: {{from: s, console: {{}}}}", connectors
    )
    node = plan.part("s")
    assert isinstance(node, nodes.Source)
    side = connectors[node.connector].source
    assert side is not None and side.open is not None
    run_context = RunContext(folder, JOB, KernelExecutor(), limit)
    opened = side.open(node, run_context)
    assert isinstance(opened, ThreadedSource)
    return opened.source, readers_of(node, opened, run_context, connectors).reader


def readers_of(
    node: nodes.Source,
    source: SourceCoordinator,
    run_context: RunContext,
    connectors: Connectors | None = None,
) -> FolderReaders:
    """The worker's half of a files source that is opened."""
    side = (connectors or connectors_of())[node.connector].source
    assert side is not None and side.open_readers is not None
    description = asyncio.run(source.describe_for_workers())
    readers = side.open_readers(node, run_context, CoordinatorLink(source.answer, description))
    assert isinstance(readers, FolderReaders)
    return readers


def chunks(reader: RecordReader, split: Split, position: Position = None) -> list[Chunk]:
    """Everything from a position on."""
    return list(reader.read(split, position))


def values(found: list[Chunk]) -> list[tuple[object, ...]]:
    """The rows of chunks."""
    return [row for chunk in found for row in chunk.frame.rows()]


@dataclass(slots=True)
class OpenedSink:
    """Both halves of a sink, the second opened for its first writer."""

    coordinator: BlockingSink
    open_writers: Callable[[Document], WriterFactory]
    _writers: WriterFactory | None = None

    def check(self) -> None:
        """Check the destination."""
        self.coordinator.check()

    def create_writer(self, subtask: int, states: Sequence[Document] = ()) -> SinkWriter:
        """Create the writer of a subtask."""
        if self._writers is None:
            self._writers = self.open_writers(self.coordinator.describe_for_workers())
        return self._writers.create_writer(subtask, states)

    def commit(self, handle: Handle) -> None:
        """Commit prepared output."""
        self.coordinator.commit(handle)

    def abort(self, handle: Handle) -> None:
        """Remove prepared output."""
        self.coordinator.abort(handle)

    def end_lost_writers(self, subtasks: Collection[int]) -> None:
        """Remove what these writers have left."""
        self.coordinator.end_lost_writers(subtasks)


def sink_of(
    folder: Path,
    text: str,
    schema: str = "{id: bigint, name: string}",
    job: str = JOB,
    *,
    continues: bool = False,
    writers: int = 1,
) -> OpenedSink:
    """The sink `o` of `sinks:`, opened alone; work is done on the loop."""
    connectors = connectors_of()
    source = f"sources:\n  s: {{memory: {{data: x}}, schema: {schema}}}"
    plan = plan_of(folder, f"{source}\nsinks:\n  o: {text}", connectors)
    node = plan.part("o")
    assert isinstance(node, nodes.Sink)
    node = replace(node, parallelism=writers)
    side = connectors[node.connector].sink
    assert side is not None and side.open is not None and side.open_writers is not None
    schema_of = plan.streams[node.input].schema
    surroundings = RunContext(folder, job, KernelExecutor(), is_resumed=continues)
    opened = side.open(node, schema_of, surroundings)
    assert isinstance(opened, ThreadedSink)
    opens_writers = partial(side.open_writers, node, schema_of, surroundings)
    return OpenedSink(
        opened.sink, lambda described: opens_writers(CoordinatorLink(opened.answer, described))
    )


def ids(memory: InMemoryData, name: str = "out") -> list[int]:
    """The first column of what was committed, sorted."""
    return sorted(int(str(row[0])) for row in rows(memory, name).elements())
