"""`--limit` over files that several subtasks read, and files that come while a source is read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.connectors.files.source import FolderReaders, FolderSource, ThreadedFolderSource
from headrace.connectors.files.text_reader import TextFileReader
from headrace.connectors.memory import InMemoryData
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.splits import Split
from headrace.core.job.job import JobOutcome
from headrace.core.testing.simulated_loop import SimulatedLoop
from tests.support.file_pipelines import ids, job_over, run, source_of
from tests.support.runtime.memory_pipelines import rows

TEXT = """
settings: {{parallelism: {parallelism}}}
sources:
  s: {{files: {{path: "in/*"}}, format: {format}, schema: {{id: bigint, name: string}}}}
sinks:
  o: {{from: s, memory: {{data: out}}}}
"""


def json_lines(first: int, count: int) -> bytes:
    return b"".join(b'{"id": %d}\n\n' % number for number in range(first, first + count))


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("block", [8, 100, 4096])
@pytest.mark.parametrize("limit", [1, 9, 10, 11, 25, 49, 50, 51, 1000])
def test_a_limit_is_the_first_rows_of_all_files_in_order(
    tmp_path: Path, parallelism: int, block: int, limit: int
) -> None:
    (tmp_path / "in").mkdir()
    for at in range(5):
        (tmp_path / f"in/{at}.jsonl").write_bytes(json_lines(at * 10, 10))
    memory = InMemoryData()
    text = TEXT.format(parallelism=parallelism, format="json")
    assert run(tmp_path, text, memory=memory, block=block, limit=limit).failure is None
    assert ids(memory) == list(range(min(limit, 50)))


@pytest.mark.parametrize("limit", [1, 3, 4])
def test_rows_after_the_limit_are_not_read(tmp_path: Path, limit: int) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_bytes(json_lines(0, limit) + b"not JSON\n")
    memory = InMemoryData()
    text = TEXT.format(parallelism=1, format="json")
    assert run(tmp_path, text, memory=memory, limit=limit).failure is None
    assert rows(memory, "out").total() == limit
    assert run(tmp_path, text, memory=memory, limit=limit + 1).failure is not None


def test_a_limit_counts_records_and_not_lines(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    records = b"".join(b'%d,"a\nb\nc"\n' % number for number in range(20))
    (tmp_path / "in/a.csv").write_bytes(b"id,name\n" + records)
    for limit in (1, 2, 19, 20):
        memory = InMemoryData()
        text = TEXT.format(parallelism=2, format="csv")
        assert run(tmp_path, text, memory=memory, limit=limit).failure is None
        assert ids(memory) == list(range(limit))


WATCHED = TEXT.replace('"in/*"', "in, watch: 5s")
LONG_AGO = (1_000_000_000, 1_000_000_000)


def put(folder: Path, name: str, first: int, rows: int) -> Path:
    """Write a file with an old modification time."""
    file = folder / name
    file.write_bytes(json_lines(first, rows))
    os.utime(file, LONG_AGO)
    return file


def watched(
    folder: Path, work: Coroutine[None, None, None], parallelism: int = 1, seed: int = 1
) -> tuple[list[tuple[float, list[int]]], JobOutcome]:
    """Read the folder `in` while it changes; return the rows with their times, and the error.

    On virtual time; the job is asked to stop when the work is done.
    """
    memory = InMemoryData()
    text = WATCHED.format(parallelism=parallelism, format="json")
    job = job_over(folder, text, KernelExecutor(), memory=memory)

    async def main() -> JobOutcome:
        running = asyncio.create_task(job.run())
        await work
        job.stop()
        return await running

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(seed)) as runner:
        outcome = runner.run(main())
    written = memory.write_times.get("out", [])
    return [(time, frame["id"].to_list()) for time, frame in written], outcome


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def test_a_file_is_read_once_and_only_when_nobody_writes_it_any_more(folder: Path) -> None:
    put(folder, "old.jsonl", 0, 3)

    async def work() -> None:
        growing = folder / "growing.jsonl"
        (folder / ".hidden.jsonl").write_bytes(json_lines(0, 1))
        (folder / "empty.jsonl").touch()
        for number in range(10, 15):
            with growing.open("ab") as opened:
                opened.write(json_lines(number, 1))
            await asyncio.sleep(4)
        await asyncio.sleep(1)
        put(folder, "moved", 20, 2).rename(folder / "moved.jsonl")
        await asyncio.sleep(30)
        with growing.open("ab") as opened:
            opened.write(json_lines(0, 1))
        await asyncio.sleep(30)

    found, outcome = watched(folder.parent, work())
    assert outcome.failure is None
    assert found == [(0, [0, 1, 2]), (25, [10, 11, 12, 13, 14, 20, 21])]


def test_lines_appended_to_a_file_that_was_read_are_reported_once(folder: Path) -> None:
    text = "{files: {path: in, watch: 5s}, schema: {id: bigint}}"
    source, file_reader = source_of(folder.parent, text)
    assert isinstance(source, FolderSource) and isinstance(file_reader, TextFileReader)
    coordinator = ThreadedFolderSource(source, KernelExecutor())
    told = list[str]()
    source.run_context = replace(source.run_context, notify_user=told.append)
    file = put(folder, "a.jsonl", 0, 3)

    def append_and_look(rows: int) -> None:
        with file.open("ab") as opened:
            opened.write(json_lines(7, rows))
        os.utime(file, LONG_AGO)
        source.discover_splits()

    async def read_to_the_end() -> None:
        link = CoordinatorLink(coordinator.answer)
        readers = FolderReaders(file_reader, source.run_context, link, is_watched=True)
        reader = readers.create_reader()
        reader.assign([(Split("s", "in/a.jsonl"), None)], last=True)
        while await reader.fetch() is not None:
            pass
        await asyncio.sleep(0)
        await reader.close()
        await readers.close()

    append_and_look(1)
    assert told == []
    asyncio.run(read_to_the_end())
    append_and_look(0)
    assert told == []
    size = len(json_lines(7, 2))
    append_and_look(2)
    append_and_look(2)
    assert told == [
        f"s: in/a.jsonl has grown by {size} bytes since it was read; a watched file is read once: "
        "the new lines are not read; use a new file"
    ]


@pytest.mark.parametrize("seed", range(5))
def test_each_file_that_comes_is_read_by_one_subtask(folder: Path, seed: int) -> None:
    async def work() -> None:
        for number in range(10):
            put(folder, f"{number}.jsonl", number, 1)
            await asyncio.sleep(3)
        await asyncio.sleep(10)

    found, _ = watched(folder.parent, work(), 3, seed)
    assert sorted(id for _, ids in found for id in ids) == list(range(10))


def test_a_file_removed_before_it_is_read_is_skipped(folder: Path) -> None:
    async def work() -> None:
        await asyncio.sleep(1)
        (folder / "a.jsonl").write_bytes(json_lines(0, 1))
        await asyncio.sleep(6)
        (folder / "a.jsonl").unlink()
        await asyncio.sleep(20)

    found, outcome = watched(folder.parent, work())
    assert (found, outcome.failure) == ([], None)


def test_files_that_appear_after_a_stop_are_not_read(folder: Path) -> None:
    async def work() -> None:
        await asyncio.sleep(7)
        put(folder, "late.jsonl", 0, 1)

    assert watched(folder.parent, work())[0] == []


def test_a_folder_that_vanishes_fails_the_job(folder: Path) -> None:
    put(folder, "a.jsonl", 0, 1)

    async def work() -> None:
        await asyncio.sleep(7)
        os.rename(folder, folder.with_name("away"))
        await asyncio.sleep(7)

    found, outcome = watched(folder.parent, work())
    assert found == [(0, [0])]
    assert outcome.failure is not None
    assert outcome.failure.step == "s"
    assert outcome.failure.message == f"no file matches in, looked for in {folder.parent}"


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_limit_ends_a_watched_source(folder: Path, parallelism: int) -> None:
    for number in range(4):
        put(folder, f"{number}.jsonl", number * 5, 5)
    memory = InMemoryData()
    text = WATCHED.replace("5s", "10ms").format(parallelism=parallelism, format="json")
    assert run(folder.parent, text, memory=memory, limit=12).failure is None
    assert ids(memory) == list(range(12))


@pytest.mark.parametrize("path", ["nowhere", "nowhere/*.jsonl", "in/a.jsonl/*"])
def test_a_folder_to_watch_must_be_there(tmp_path: Path, path: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").touch()
    text = f"{{files: {{path: '{path}', watch: 5s}}, schema: {{id: bigint}}}}"
    source, _ = source_of(tmp_path, text)
    with pytest.raises(ConnectorError) as raised:
        source.discover_splits()
    assert raised.value.exit_status == 2


@pytest.mark.parametrize("path", ["in", "in/*.jsonl", "in/**/x", "in/[a].jsonl"])
def test_a_folder_to_watch_may_be_empty(tmp_path: Path, path: str) -> None:
    (tmp_path / "in").mkdir()
    text = f"{{files: {{path: '{path}', watch: 5s}}, schema: {{id: bigint}}}}"
    source, _ = source_of(tmp_path, text)
    assert source.discover_splits() == []
