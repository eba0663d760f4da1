"""The worker processes of a job: used by all its attempts, replaced when lost.

A process is lost when it ends by itself, however it ends, or is silent for too long. An attempt
with another number of workers starts or ends processes; one with a single worker has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Protocol

from headrace.core.api.failures import ConnectorError
from headrace.core.coordination.messages import CoordinatorEvent
from headrace.core.exchange.control_connection import ControlConnection
from headrace.core.exchange.peer_lost import PeerLost
from headrace.core.exchange.stream_end import StreamEnd, open_socket_pair
from headrace.core.processes.lifeline import BEAT_S, SilenceWatch
from headrace.core.processes.messages import AttemptMessage, WorkerReady, WorkerSetup
from headrace.core.processes.process_pool import ProcessPool, WorkerHandle
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.connectors import OpenConnectors
from headrace.core.worker.pool import (
    WorkerPool,
    WorkerSpec,
    start_in_process,
)

END_TIMEOUT_S = 10.0
"""The time in which the process of a worker that is no longer needed may end by itself."""


class StartedProcess(Protocol):
    """A worker process that was started, as `WorkerProcess` is."""

    @property
    def number(self) -> int:
        """The number of the worker."""
        ...

    @property
    def pid(self) -> int:
        """The id of the process."""
        ...

    @property
    def control(self) -> StreamEnd:
        """The coordinator's end of the stream of messages."""
        ...

    def has_sign(self) -> bool:
        """Return whether the process has given a sign of life since the last call."""
        ...

    def kill(self) -> None:
        """End the process at once."""
        ...

    async def wait(self) -> str:
        """Wait for the end, and kill the process if it does not come; return how it ended."""
        ...


@dataclass(slots=True)
class WorkerLink:
    """A running worker process and the connection to it."""

    process: StartedProcess
    control: ControlConnection
    on_message: Callable[[WorkerLink, AttemptMessage], None]
    on_lost: Callable[[WorkerLink, str], None]
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _watch: SilenceWatch = field(default_factory=SilenceWatch)
    _is_ready: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the process can start an attempt, and when it is over."""
    _end: str = ""
    """The reason why the process has ended; empty while it runs."""
    _why: str = ""
    """Why the process was killed; empty if it ends by itself."""

    @property
    def number(self) -> int:
        """The number of the worker."""
        return self.process.number

    def start(self) -> None:
        """Receive messages and watch the process from now on."""
        self._tasks = [
            asyncio.create_task(self._receive()),
            asyncio.create_task(self._watch_signs()),
        ]

    def kill(self, why: str) -> None:
        """End the process at once; it is lost for this reason."""
        self._why = self._why or why
        self.process.kill()

    async def wait_until_ready(self) -> None:
        """Wait until the process can start an attempt. Raises ConnectorError if it has ended."""
        await self._is_ready.wait()
        if self._end:
            raise ConnectorError(f"worker {self.number} cannot be started: {self._end}")

    @property
    def is_ending(self) -> bool:
        """Whether the process was killed or has ended, and its loss is not reported yet."""
        was_ended = bool(self._why) or self.control.lost is not None
        return was_ended and not self._tasks[0].done()

    async def wait_until_lost(self) -> None:
        """Wait until the process has ended, and its loss is reported."""
        await asyncio.wait(self._tasks[:1])

    async def end(self) -> None:
        """End the process, which need not finish anything, without counting it as lost."""
        self._record_end("the job has restarted or ended")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.control.close()
        await self.process.wait()

    async def _receive(self) -> None:
        try:
            while True:
                received = await self.control.receive()
                assert isinstance(received.message, AttemptMessage)
                if isinstance(received.message.message, WorkerReady):
                    self._is_ready.set()
                else:
                    self.on_message(self, received.message)
        except PeerLost:
            how = await self.process.wait()
            self._tasks[1].cancel()
            self._record_end(self._why or how)
            self.on_lost(self, self._end)

    def _record_end(self, how: str) -> None:
        self._end = self._end or how
        self._is_ready.set()

    async def _watch_signs(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(BEAT_S)
            has_sign = self.process.has_sign()
            if self._watch.check(loop.time(), has_sign=has_sign):
                self.kill(f"it was silent for {self._watch.silence_limit_s:.0f} s, and was killed")


@dataclass(slots=True)
class WorkerProcesses:
    """The worker processes of a job, which outlive its attempts."""

    build_setup: Callable[[int], WorkerSetup]
    """Returns the setup of a worker by its number, from 1."""
    start_process: Callable[[int, int], StartedProcess]
    """Starts the process of a worker: by its number, and the number of workers. Raises OSError."""
    open_pair: Callable[[], tuple[StreamEnd, StreamEnd]] = open_socket_pair
    """Opens a stream between two workers."""
    report_started: Callable[[int, int], None] = lambda number, pid: None
    """Reports that a worker runs, and the id of its process."""
    report_lost: Callable[[int, str], None] = lambda number, why: None
    """Reports that a worker was lost, and why."""
    _links: dict[int, WorkerLink] = field(default_factory=dict)
    _pool: ProcessPool | None = None
    """The workers of the current attempt."""
    _endings: set[asyncio.Task[None]] = field(default_factory=set)
    """The tasks that end processes."""
    _is_closed: bool = False

    async def __aenter__(self) -> WorkerProcesses:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def prepare(self, count: int) -> None:
        """Start the processes that the current attempt lacks for this number of workers.

        They have read the pipeline then. Processes that neither of the two needs are ended. Raises
        ConnectorError if one cannot be started.
        """
        current = self._pool.spec.worker_count if self._pool is not None else 0
        await self._end_all_after(max(current, count if count > 1 else 0))
        if count > 1 and not self._is_closed:
            missing = [n for n in range(current + 1, count + 1) if n not in self._links]
            links = [self._start_link(count, number) for number in missing]
            await asyncio.gather(*(link.wait_until_ready() for link in links))

    async def start_attempt(
        self,
        spec: WorkerSpec,
        connectors: OpenConnectors,
        send: Callable[[CoordinatorEvent], None],
    ) -> WorkerPool:
        """Return the workers of an attempt; only processes that are missing are started.

        Raises ConnectorError if one cannot be started.
        """
        count = spec.worker_count
        await self._end_all_after(count if count > 1 else 0)
        if count == 1:
            self._pool = None
            return await start_in_process(spec, connectors, send)
        descriptions = await connectors.describe_for_workers()
        while ending := [link for link in self._links.values() if link.is_ending]:
            await asyncio.gather(*(link.wait_until_lost() for link in ending))
        # From here to the end without waiting: a worker lost meanwhile would be lost to no attempt.
        start_link = partial(self._start_link, count)
        for number in range(1, count + 1):
            if number not in self._links:
                start_link(number)
        links: dict[int, WorkerHandle] = {**self._links}
        self._pool = ProcessPool(
            spec, connectors, send, links, descriptions, start_link, self.open_pair
        )
        return self._pool

    async def close(self) -> None:
        """End all processes."""
        self._is_closed = True
        await self._end_all_after(0)

    async def _end_all_after(self, last: int) -> None:
        """End the processes of all workers with a higher number, also if it is cancelled."""
        for number in sorted(self._links):
            if number > last:
                ending = asyncio.create_task(self._links.pop(number).end())
                self._endings.add(ending)
                ending.add_done_callback(self._endings.discard)
        if self._endings:
            await asyncio.wait(self._endings, timeout=END_TIMEOUT_S)

    def _start_link(self, count: int, number: int) -> WorkerLink:
        try:
            process = self.start_process(number, count)
        except OSError as error:
            message = f"worker {number} of {count} cannot be started: {error.strerror or error}"
            hint = "fewer workers need fewer processes and less memory"
            raise ConnectorError(message, hint) from error
        link = WorkerLink(
            process,
            ControlConnection(process.control, peer=f"worker {number}"),
            self._deliver,
            self._remove_lost,
        )
        self._links[number] = link
        link.control.post(AttemptMessage(0, self.build_setup(number)))
        link.start()
        self.report_started(number, process.pid)
        return link

    def _deliver(self, link: WorkerLink, message: AttemptMessage) -> None:
        """Pass a message to the attempt that it belongs to."""
        if self._pool is not None and message.attempt == self._pool.attempt:
            self._pool.on_message(link.number, message.message)

    def _remove_lost(self, link: WorkerLink, why: str) -> None:
        if self._links.get(link.number) is link:
            del self._links[link.number]
            self.report_lost(link.number, why)
        if self._pool is not None:
            self._pool.on_lost(link.number, why)
