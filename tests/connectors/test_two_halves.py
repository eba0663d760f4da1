"""The halves of files and of sinks that print, in several real processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.connectors.files.source import build_reader
from headrace.connectors.registry import REGISTRY
from headrace.core.api.failures import ConnectorError
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkCoordinator
from headrace.core.api.sources import SourceCoordinator
from headrace.core.api.splits import Handle, Progress, Split
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema
from tests.support.file_pipelines import JOB, connectors_of
from tests.support.runtime.memory_pipelines import plan_of
from tests.support.two_halves import End, Job, Read, Write, elsewhere, run


def rows(first: int, count: int = 10) -> pl.DataFrame:
    """Make rows with these ids."""
    return pl.DataFrame({"id": range(first, first + count)})


def sink_node(folder: Path, text: str, parallelism: int = 2) -> tuple[nodes.Sink, Schema]:
    """The sink of that text, and its schema."""
    source = "sources:\n  s: {memory: {data: x}, schema: {id: bigint}}"
    plan = plan_of(folder, f"{source}\nsinks:\n  o: {text}", connectors_of())
    node = plan.part("o")
    assert isinstance(node, nodes.Sink)
    return replace(node, parallelism=parallelism), plan.streams[node.input].schema


def with_sink(
    folder: Path,
    node: nodes.Sink,
    schema: Schema,
    work: Callable[[SinkCoordinator, Job], Awaitable[Any]],
) -> Any:
    """Open the coordinator's half of a sink in this process for the work."""

    async def do() -> Any:
        side = REGISTRY[node.connector].sink
        assert side is not None and side.open is not None
        job = Job(folder, JOB)
        with ThreadPoolExecutor(2) as executor:
            sink = side.open(node, schema, job.run_context(executor))
            await sink.check()
            try:
                return await work(sink, job)
            finally:
                await sink.close()

    return run(do())


def committed(folder: Path) -> list[int]:
    """The ids in all committed parts, sorted."""
    lines = [line for file in folder.rglob("part-*") for line in file.read_text().splitlines()]
    return sorted(json.loads(line)["id"] for line in lines)


def names(folder: Path) -> list[str]:
    """The names of all files in the folder, sorted."""
    return sorted(path.name for path in folder.iterdir())


def test_files_are_written_in_two_processes_and_committed_in_a_third(tmp_path: Path) -> None:
    node, schema = sink_node(tmp_path, "{from: s, files: {path: out}}")

    async def work(sink: SinkCoordinator, job: Job) -> tuple[list[Handle], list[Handle], list[Any]]:
        description = await sink.describe_for_workers()
        written = await asyncio.gather(
            *(
                elsewhere(
                    Write(node, schema, at, [rows(100 * at), rows(100 * at + 50)], description),
                    job,
                    sink,
                )
                for at in range(2)
            )
        )
        first = [handles[0] for handles, _ in written]
        second = [handles[1] for handles, _ in written]
        assert committed(tmp_path / "out") == []
        await elsewhere(End(node, schema, commits=first, aborts=second), job)
        return first, second, [state for _, state in written]

    _, _, states = with_sink(tmp_path, node, schema, work)
    assert committed(tmp_path / "out") == [*range(10), *range(100, 110)]
    before = names(tmp_path / "out")
    assert len(before) == 2

    async def resume(sink: SinkCoordinator, job: Job) -> None:
        # Parts may be moved away, and names are still not used twice.
        for path in (tmp_path / "out").iterdir():
            path.unlink()
        description = await sink.describe_for_workers()
        assert description == {"sequence": 0}
        write = Write(node, schema, 0, [rows(0)], description, states)
        (handle,), _ = await elsewhere(write, job, sink)
        await sink.commit(handle)
        assert not set(names(tmp_path / "out")) & set(before)

    with_sink(tmp_path, node, schema, resume)


def test_what_a_dead_process_has_written_is_removed_by_the_next_attempt(tmp_path: Path) -> None:
    node, schema = sink_node(tmp_path, "{from: s, files: {path: out, roll: {rows: 3}}}")

    async def work(sink: SinkCoordinator, job: Job) -> None:
        description = await sink.describe_for_workers()
        write = Write(node, schema, 0, [rows(0), rows(10)], description)
        assert await elsewhere(replace(write, dies=True), job, sink) is None
        assert names(tmp_path / "out")

    with_sink(tmp_path, node, schema, work)

    async def nothing(sink: SinkCoordinator, job: Job) -> None:
        """Check alone."""

    with_sink(tmp_path, node, schema, nothing)
    assert names(tmp_path / "out") == []


def test_old_output_is_replaced_once_the_writers_of_all_processes_have_committed(
    tmp_path: Path,
) -> None:
    (tmp_path / "out").mkdir()
    old = tmp_path / "out" / "part-00000-old.jsonl"
    old.write_text('{"id": 7}\n')
    node, schema = sink_node(tmp_path, "{from: s, files: {path: out, mode: overwrite}}")

    async def work(sink: SinkCoordinator, job: Job) -> None:
        description = await sink.describe_for_workers()
        for at in range(2):
            write = Write(node, schema, at, [rows(100 * at)], description)
            (handle,), _ = await elsewhere(write, job, sink)
            assert old.exists()
            await sink.commit(handle)

    with_sink(tmp_path, node, schema, work)
    assert committed(tmp_path / "out") == [*range(10), *range(100, 110)]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_rows_of_two_processes_are_printed_here_in_whole_lines(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], format: str
) -> None:
    node, schema = sink_node(tmp_path, f"{{from: s, stdout: , format: {format}}}")

    async def work(sink: SinkCoordinator, job: Job) -> None:
        batches = [rows(1000 * at, 1000) for at in range(10)]
        written = (Write(node, schema, at, batches[at::2]) for at in range(2))
        await asyncio.gather(*(elsewhere(write, job, sink) for write in written))

    with_sink(tmp_path, node, schema, work)
    lines = capfdbinary.readouterr().out.decode().splitlines()
    if format == "csv":
        assert lines.pop(0) == "id"
        assert sorted(map(int, lines)) == list(range(10_000))
    else:
        assert sorted(json.loads(line)["id"] for line in lines) == list(range(10_000))


def test_rows_of_two_processes_are_printed_as_one_table(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    node, schema = sink_node(tmp_path, "{from: s, console: }")

    async def work(sink: SinkCoordinator, job: Job) -> None:
        written = (Write(node, schema, at, [rows(10 * at), rows(10 * at + 20)]) for at in range(2))
        await asyncio.gather(*(elsewhere(write, job, sink) for write in written))

    with_sink(tmp_path, node, schema, work)
    text = capfdbinary.readouterr().out.decode()
    assert text.count("id") == 1
    found = {int(word) for word in text.replace("|", " ").split() if word.isdigit()}
    assert found == set(range(40))


def source_node(folder: Path, text: str) -> nodes.Source:
    """The source of that text."""
    sink = "sinks:\n  o: {from: s, console: }"
    node = plan_of(folder, f"sources:\n  s: {text}\n{sink}", connectors_of()).part("s")
    assert isinstance(node, nodes.Source)
    return node


def open_source(node: nodes.Source, context: RunContext) -> SourceCoordinator:
    """Open the coordinator's half of a source."""
    side = REGISTRY[node.connector].source
    assert side is not None and side.open is not None
    return side.open(node, context)


@pytest.mark.parametrize(
    "text",
    [
        "{files: {path: 'in/*.jsonl'}, schema: {id: bigint}}",
        "{generate: {columns: {id: id}, rows: 100000}}",
    ],
)
def test_splits_discovered_here_are_read_in_two_processes(tmp_path: Path, text: str) -> None:
    (tmp_path / "in").mkdir()
    for at in range(4):
        lines = [f'{{"id": {id}}}\n' for id in range(25_000 * at, 25_000 * (at + 1))]
        (tmp_path / f"in/{at}.jsonl").write_text("".join(lines))
    node = replace(source_node(tmp_path, text), parallelism=2)

    async def work() -> list[int]:
        job = Job(tmp_path, JOB)
        with ThreadPoolExecutor(2) as executor:
            source = open_source(node, job.run_context(executor))
            splits = [(split, None) for split in await source.discover_splits(first=True)]
            description = await source.describe_for_workers()
            reads = (Read(node, splits[at::2], description) for at in range(2))
            found = await asyncio.gather(*(elsewhere(read, job, source) for read in reads))
            await source.close()
        return sorted(row[0] for each in found for row in each)

    assert run(work()) == list(range(100_000))


def test_a_file_that_changes_after_a_restore_is_rejected_in_another_process(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("".join(f"{at:04}\n" for at in range(100)))
    node = source_node(tmp_path, "{files: {path: a.txt}, format: raw}")
    split = Split("s", "a.txt")

    async def work() -> None:
        job = Job(tmp_path, JOB)
        with ThreadPoolExecutor(2) as executor:
            source = open_source(node, job.run_context(executor))
            chunk = next(build_reader(node, str(tmp_path), 100, None).read(split, None))
            await source.restore({split: Progress(chunk.position, identity=chunk.identity)})
            description = await source.describe_for_workers()
            read = Read(node, [(split, chunk.position)], description)
            assert len(await elsewhere(read, job, source)) == 100 - int(str(chunk.position)) // 5
            file.write_text("".join(f"{at:04}\n" for at in range(1, 101)))
            with pytest.raises(ConnectorError, match="is not the file that was read"):
                await elsewhere(read, job, source)
            await source.close()

    run(work())
