"""`--limit` over files that several subtasks read, and files that come while a source is read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeVar

import pytest

from headrace.connectors.memory import Memory
from headrace.core.contracts import ConnectorError, Reading
from tests.connectors.on_disk import ids, run, source_of
from tests.runtime.running import rows
from tests.simulation import SimulatedLoop

T = TypeVar("T")

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
    memory = Memory()
    text = TEXT.format(parallelism=parallelism, format="json")
    assert run(tmp_path, text, memory=memory, block=block, limit=limit).failure is None
    assert ids(memory) == list(range(min(limit, 50)))


@pytest.mark.parametrize("limit", [1, 3, 4])
def test_nothing_behind_the_last_wanted_row_is_looked_at(tmp_path: Path, limit: int) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_bytes(json_lines(0, limit) + b"not JSON\n")
    memory = Memory()
    text = TEXT.format(parallelism=1, format="json")
    assert run(tmp_path, text, memory=memory, limit=limit).failure is None
    assert rows(memory, "out").total() == limit
    assert run(tmp_path, text, memory=memory, limit=limit + 1).failure is not None


def test_a_limit_counts_records_and_not_lines(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    records = b"".join(b'%d,"a\nb\nc"\n' % number for number in range(20))
    (tmp_path / "in/a.csv").write_bytes(b"id,name\n" + records)
    for limit in (1, 2, 19, 20):
        memory = Memory()
        text = TEXT.format(parallelism=2, format="csv")
        assert run(tmp_path, text, memory=memory, limit=limit).failure is None
        assert ids(memory) == list(range(limit))


def simulate(work: Callable[[], Coroutine[None, None, T]], seed: int = 1) -> T:
    """The result of a coroutine on virtual time."""
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(seed)) as runner:
        return runner.run(work())


WATCHED = "{files: {path: in, watch: 5s}, schema: {id: bigint}}"
LONG_AGO = (1_000_000_000, 1_000_000_000)


async def collect(reading: Reading, found: list[tuple[float, str, int]]) -> None:
    """What comes: when, from which file, how many rows."""
    loop = asyncio.get_running_loop()
    while (chunk := await reading.next()) is not None:
        found.append((loop.time(), chunk.split.name, chunk.frame.height))


async def watched(
    folder: Path, work: Coroutine[None, None, None], subtasks: int = 1
) -> list[tuple[float, str, int]]:
    """What subtasks read of a watched folder while something happens there."""
    source, _ = source_of(folder, WATCHED)
    splits = [(split, None) for split in source.discover()]
    readings = [source.reading(splits[at::subtasks]) for at in range(subtasks)]
    found: list[tuple[float, str, int]] = []
    tasks = [asyncio.create_task(collect(reading, found)) for reading in readings]
    await work
    for task, reading in zip(tasks, readings, strict=True):
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await reading.close()
    return found


def test_a_file_is_read_once_and_only_when_nobody_writes_it_any_more(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "old.jsonl").write_bytes(json_lines(0, 3))
    os.utime(folder / "old.jsonl", LONG_AGO)

    async def work() -> None:
        growing = folder / "growing.jsonl"
        (folder / ".hidden.jsonl").write_bytes(json_lines(0, 1))
        (folder / "empty.jsonl").touch()
        for _ in range(5):
            with growing.open("ab") as opened:
                opened.write(json_lines(0, 1))
            await asyncio.sleep(4)
        await asyncio.sleep(1)
        (folder / "moved").write_bytes(json_lines(0, 2))
        os.utime(folder / "moved", LONG_AGO)
        (folder / "moved").rename(folder / "moved.jsonl")
        await asyncio.sleep(30)
        with growing.open("ab") as opened:
            opened.write(json_lines(0, 1))
        await asyncio.sleep(30)

    found = simulate(lambda: watched(tmp_path, work()))
    assert found == [
        (0.0, "in/old.jsonl", 3),
        (25.0, "in/growing.jsonl", 5),
        (25.0, "in/moved.jsonl", 2),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_each_file_that_comes_is_read_by_one_subtask(tmp_path: Path, seed: int) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    async def work() -> None:
        for number in range(10):
            (folder / f"{number}.jsonl").write_bytes(json_lines(0, 1))
            os.utime(folder / f"{number}.jsonl", LONG_AGO)
            await asyncio.sleep(3)
        await asyncio.sleep(10)

    found = simulate(lambda: watched(tmp_path, work(), 3), seed)
    assert sorted(name for _, name, _ in found) == [f"in/{number}.jsonl" for number in range(10)]


def test_a_file_that_goes_before_it_is_read_is_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    async def work() -> None:
        (folder / "a.jsonl").write_bytes(json_lines(0, 1))
        await asyncio.sleep(7)
        (folder / "a.jsonl").unlink()
        await asyncio.sleep(20)

    assert simulate(lambda: watched(tmp_path, work())) == []


def test_a_limit_ends_a_watched_source(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.jsonl").write_bytes(json_lines(0, 5))
        os.utime(folder / f"{number}.jsonl", LONG_AGO)
    memory = Memory()
    text = TEXT.format(parallelism=3, format="json").replace('"in/*"', "in, watch: 10ms")
    assert run(tmp_path, text, memory=memory, limit=12).failure is None
    assert rows(memory, "out").total() == 12


@pytest.mark.parametrize("path", ["nowhere", "nowhere/*.jsonl", "in/a.jsonl/*"])
def test_a_folder_to_watch_must_be_there(tmp_path: Path, path: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").touch()
    text = f"{{files: {{path: '{path}', watch: 5s}}, schema: {{id: bigint}}}}"
    source, _ = source_of(tmp_path, text)
    with pytest.raises(ConnectorError) as raised:
        source.discover()
    assert raised.value.exit_status == 2


@pytest.mark.parametrize("path", ["in", "in/*.jsonl", "in/**/x", "in/[a].jsonl"])
def test_a_folder_to_watch_may_be_empty(tmp_path: Path, path: str) -> None:
    (tmp_path / "in").mkdir()
    text = f"{{files: {{path: '{path}', watch: 5s}}, schema: {{id: bigint}}}}"
    source, _ = source_of(tmp_path, text)
    assert source.discover() == []
