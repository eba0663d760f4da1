"""Errors that are no `Exception` fail the job as well: panics of Polars, `sys.exit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData, MemorySink, MemoryWriter
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkWriter
from headrace.core.api.splits import Handle
from headrace.core.api.state import Document
from headrace.core.api.user_code import UserCodeError
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.pipeline.settings import FixedRestart
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema
from headrace.state.storage.local_store import LocalSnapshotStore
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.runtime.memory_pipelines import job_of, run_simulated, simulated, threaded

ROWS = {"in": {"a": [pl.DataFrame({"id": range(3000)})]}}
TEXT = """
sources: {s: {memory: {data: in}, schema: {id: bigint}}}
steps: {m: {from: s, map: {python: "f.py:f", returns: {id: bigint}, mode: %s}}}
sinks: {out: {from: m, memory: {data: out}}}
"""
TEN_TIMES = FixedRestart.model_construct(attempts=10, delay=timedelta(seconds=1))
PANIC = "import polars as pl\ndef f(rows):\n    raise pl.exceptions.PanicException('oh')\n"
EXIT = "import sys\ndef f(rows):\n    sys.exit('bye')\n"


@pytest.mark.parametrize("mode", ["batch", "row"])
@pytest.mark.parametrize(
    ("code", "said"), [(PANIC, "f.py:3: PanicException: oh"), (EXIT, "f.py:3: SystemExit: bye")]
)
def test_in_a_function_of_a_user(tmp_path: Path, mode: str, code: str, said: str) -> None:
    (tmp_path / "f.py").write_text(code)
    for outcome in (
        simulated(tmp_path, TEXT % mode, InMemoryData(ROWS), 0),
        threaded(tmp_path, TEXT % mode, InMemoryData(ROWS)),
    ):
        assert outcome.failure is not None
        message, _, where = outcome.failure.message.partition(" (in ")
        assert (message, outcome.failure.step) == (said, "m")
        assert where.startswith("a batch of" if mode == "batch" else "the row {'id': 0}")


def test_in_the_file_of_a_user(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(rows): return rows\nraise SystemExit(0)\n")
    with pytest.raises(UserCodeError, match=r"f\.py:2: SystemExit: 0"):
        simulated(tmp_path, TEXT % "batch", InMemoryData(ROWS), 0)


class Panicking(InMemoryData):
    """A sink that cannot commit."""

    def _open_sink(self, sink: nodes.Sink, schema: Schema, surroundings: RunContext) -> MemorySink:
        return PanickingSink(self, "out")


class PanickingSink(MemorySink):
    """Raise a panic on commit."""

    async def commit(self, handle: Handle) -> None:
        """Ignore the abort."""
        raise pl.exceptions.PanicException("oh")


def test_in_a_commit(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(rows): return rows\n")
    outcome = simulated(tmp_path, TEXT % "batch", Panicking(ROWS), 0)
    assert outcome.failure is not None
    assert (outcome.failure.message, outcome.failure.step) == ("PanicException: oh", "out")


class Numbering(InMemoryData):
    """A sink whose writers panic with another text each time, as Polars' tasks do."""

    def _open_sink(self, sink: nodes.Sink, schema: Schema, surroundings: RunContext) -> MemorySink:
        return NumberingSink(self, "out")


class NumberingSink(MemorySink):
    """Create a writer that panics."""

    def create_writer(self, subtask: int, begun: Sequence[Document] = ()) -> SinkWriter:
        """A writer that writes nothing."""
        return NumberingWriter(self, subtask)


class NumberingWriter(MemoryWriter):
    """Raise a panic."""

    async def write(self, frame: pl.DataFrame) -> None:
        """Ignore the rows."""
        number = next(self.sink.memory.handle_numbers)
        raise pl.exceptions.PanicException(f"JoinError::Panic(Id({number}))")


def test_one_that_says_something_else_each_time_ends_the_job_when_it_has_come_three_times(
    tmp_path: Path,
) -> None:
    (tmp_path / "f.py").write_text("def f(rows): return rows\n")
    memory = Numbering(ROWS)
    job = job_of(tmp_path, TEXT % "batch", memory, KernelExecutor(), ChannelBounds())
    store = LocalSnapshotStore(MemoryDisk(), "/checkpoints", "0" * 32)
    store.prepare()
    job.spec = replace(job.spec, storage=CheckpointStorage(store, RestartPolicy(TEN_TIMES)))
    outcome = run_simulated(job, 0)
    assert outcome.failure is not None
    assert outcome.failure.message == "PanicException: JoinError::Panic(Id(2))"
