"""Worker processes that are lost between two attempts, or before they are ready for one."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.core.api.failures import ConnectorError
from headrace.core.api.state import Document
from headrace.core.processes.messages import WorkerSetup
from headrace.core.processes.worker_process import WorkerProcess, start_process
from headrace.core.processes.worker_processes import WorkerProcesses
from headrace.core.worker.connectors import OpenConnectors
from headrace.core.worker.pool import WorkerSpec

MODULE = """\
import socket, sys
ends = [socket.socket(fileno=int(each)) for each in sys.argv[2:]]
while ends[0].recv(1 << 20):
    pass
"""
"""A worker that does nothing until its coordinator closes the connection."""


def test_a_worker_lost_while_an_attempt_is_prepared_is_started_again(tmp_path: Path) -> None:
    asyncio.run(_lose_between_attempts(tmp_path))


async def _lose_between_attempts(folder: Path) -> None:
    (folder / "waiting_worker.py").write_text(MODULE)
    processes: dict[int, WorkerProcess] = {}
    lost: asyncio.Queue[int] = asyncio.Queue()

    def start(number: int, count: int) -> WorkerProcess:
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        processes[number] = start_process(
            number, "waiting_worker", environment, lambda line, is_error: None
        )
        return processes[number]

    async def describe() -> dict[str, Document]:
        if processes:
            processes[1].kill()
            assert await lost.get() == 1
        return {}

    workers = WorkerProcesses(
        lambda number: cast("WorkerSetup", None),
        start,
        report_lost=lambda number, why: lost.put_nowait(number),
    )
    connectors = cast("OpenConnectors", SimpleNamespace(describe_for_workers=describe))

    def ignore(event: Any) -> None:
        pass

    async with workers:
        for attempt in (1, 2):
            spec = cast("WorkerSpec", SimpleNamespace(attempt=attempt, worker_count=2))
            pool = await workers.start_attempt(spec, connectors, ignore)
            assert set(cast("Any", pool).workers) == {1, 2}


def test_a_killed_worker_is_not_used_by_the_next_attempt(tmp_path: Path) -> None:
    asyncio.run(_kill_between_attempts(tmp_path))


async def _kill_between_attempts(folder: Path) -> None:
    (folder / "waiting_worker.py").write_text(MODULE)
    lost: list[tuple[int, str]] = []

    def start(number: int, count: int) -> WorkerProcess:
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        return start_process(number, "waiting_worker", environment, lambda line, is_error: None)

    async def describe() -> dict[str, Document]:
        return {}

    workers = WorkerProcesses(
        lambda number: cast("WorkerSetup", None),
        start,
        report_lost=lambda number, why: lost.append((number, why)),
    )
    connectors = cast("OpenConnectors", SimpleNamespace(describe_for_workers=describe))
    async with workers:
        pools: list[Any] = []
        for attempt in (1, 2):
            spec = cast("WorkerSpec", SimpleNamespace(attempt=attempt, worker_count=2))
            pools.append(await workers.start_attempt(spec, connectors, lambda event: None))
            if attempt == 1:
                pools[0].workers[1].kill("it did not end its subtasks")
        assert lost == [(1, "it did not end its subtasks")]
        assert [pools[1].workers[n] is pools[0].workers.get(n) for n in (1, 2)] == [False, True]


def test_a_process_that_is_lost_before_it_is_ready_cannot_be_prepared(tmp_path: Path) -> None:
    asyncio.run(_lose_before_ready(tmp_path))


async def _lose_before_ready(folder: Path) -> None:
    (folder / "waiting_worker.py").write_text(MODULE)
    processes: list[WorkerProcess] = []
    are_started = asyncio.Event()

    def start(number: int, count: int) -> WorkerProcess:
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        processes.append(
            start_process(number, "waiting_worker", environment, lambda line, is_error: None)
        )
        if len(processes) == 4:
            are_started.set()
        return processes[-1]

    async def describe() -> dict[str, Document]:
        return {}

    workers = WorkerProcesses(lambda number: cast("WorkerSetup", None), start)
    connectors = cast("OpenConnectors", SimpleNamespace(describe_for_workers=describe))
    async with workers:
        spec = cast("WorkerSpec", SimpleNamespace(attempt=1, worker_count=2))
        await workers.start_attempt(spec, connectors, lambda event: None)
        preparing = asyncio.create_task(workers.prepare(4))
        await are_started.wait()
        processes[2].kill()
        with pytest.raises(ConnectorError, match=r"worker 3 cannot be started: .*SIGKILL"):
            await preparing
        await workers.prepare(2)
        assert [process._process.poll() is None for process in processes] == [
            True,
            True,
            False,
            False,
        ]


def test_processes_end_although_who_ends_them_is_cancelled(tmp_path: Path) -> None:
    for turns in range(3):
        asyncio.run(_cancel_while_processes_end(tmp_path, turns))


async def _cancel_while_processes_end(folder: Path, turns: int) -> None:
    (folder / "waiting_worker.py").write_text(MODULE)
    processes: list[WorkerProcess] = []

    def start(number: int, count: int) -> WorkerProcess:
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        processes.append(
            start_process(number, "waiting_worker", environment, lambda line, is_error: None)
        )
        return processes[-1]

    async with WorkerProcesses(lambda number: cast("WorkerSetup", None), start) as workers:
        for count in (2, 1):  # the second call ends what the first has started
            preparing = asyncio.create_task(workers.prepare(count))
            for _ in range(turns + count):
                await asyncio.sleep(0)
            preparing.cancel()
            await asyncio.gather(preparing, return_exceptions=True)
    assert len(processes) == 2
    assert None not in [process._process.poll() for process in processes]
