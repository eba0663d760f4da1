"""The workers of one attempt, each in a process of its own, as one `WorkerPool`.

Commands go to the worker of the subtask that they name, or to all of them. A lost worker that ran
whole regions is replaced, and they restart; any other lost worker fails the attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import combinations
from typing import Protocol

from headrace.core.api.failures import ConnectorError, build_failure
from headrace.core.api.snapshots import find_blobs
from headrace.core.api.splits import Failure, SubtaskId
from headrace.core.api.state import Document
from headrace.core.api.taps import TapRequest, TapSample
from headrace.core.coordination.messages import (
    AssignSplits,
    AttemptCancelled,
    Cancel,
    CoordinatorEvent,
    Deploy,
    RegionsLost,
    SnapshotAcknowledged,
    SubtaskFailed,
    SubtaskFinished,
    WorkerCommand,
)
from headrace.core.exchange.control_connection import ControlConnection
from headrace.core.exchange.stream_end import StreamEnd
from headrace.core.plan.placement import place_subtasks
from headrace.core.plan.regions import find_lost_subtasks, find_regions
from headrace.core.processes.messages import (
    AttemptMessage,
    AttemptRejected,
    AttemptStarted,
    ConnectorReply,
    ConnectorRequest,
    SetTaps,
    StartAttempt,
    UserNotice,
)
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.channels import list_channels
from headrace.core.worker.connectors import OpenConnectors
from headrace.core.worker.pool import WorkerSpec
from headrace.core.worker.report import WorkerReport

CANCEL_TIMEOUT_S = 10.0
"""The time in which a worker may end its subtasks before it is killed."""


class WorkerHandle(Protocol):
    """A worker process, as an attempt uses it."""

    @property
    def number(self) -> int:
        """The number of the worker."""
        ...

    @property
    def control(self) -> ControlConnection:
        """The connection to it."""
        ...

    def kill(self, why: str) -> None:
        """End the process at once; it is lost for this reason."""
        ...


@dataclass(slots=True)
class ProcessPool:
    """The worker processes of one attempt."""

    spec: WorkerSpec
    connectors: OpenConnectors
    send: Callable[[CoordinatorEvent], None]
    workers: dict[int, WorkerHandle]
    """The workers that have not been lost, by number."""
    descriptions: Mapping[str, Document]
    start_worker: Callable[[int], WorkerHandle]
    """Starts the worker of a number, in place of one that was lost."""
    open_pair: Callable[[], tuple[StreamEnd, StreamEnd]]
    """Opens a stream between two workers."""
    _placement: Mapping[SubtaskId, int] = field(default_factory=dict)
    _starting: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    """The workers that have been told to start their subtasks."""
    _cancelling: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    """The workers that have been told to end their subtasks."""
    _replaced: set[int] = field(default_factory=set)
    """The workers that were started in place of lost ones."""
    _reports: dict[int, WorkerReport] = field(default_factory=dict)
    """The newest report of each worker."""
    _answers: set[asyncio.Task[None]] = field(default_factory=set)
    _taps: tuple[TapRequest, ...] = ()

    @property
    def attempt(self) -> int:
        """The number of the attempt."""
        return self.spec.attempt

    async def receive(self, command: WorkerCommand) -> None:
        """Pass a command on to the workers that it concerns."""
        match command:
            case Deploy():
                await self._deploy(command)
            case AssignSplits(subtask):
                self._tell(self._placement[subtask], command)
            case Cancel():
                await self.cancel()
                self.send(AttemptCancelled())
            case _:
                for number in self.workers:
                    self._tell(number, command)

    async def cancel(self) -> None:
        """End all subtasks; a worker that does not end them in time is killed."""
        loop = asyncio.get_running_loop()
        for number in self.workers:
            if number in self._starting and number not in self._cancelling:
                self._cancelling[number] = loop.create_future()
                self._tell(number, Cancel())
        pending = [future for future in self._cancelling.values() if not future.done()]
        if pending:
            await asyncio.wait(pending, timeout=CANCEL_TIMEOUT_S)
        for number, future in self._cancelling.items():
            if not future.done() and number in self.workers:
                self.workers[number].kill("it did not end its subtasks, and was killed")
        for task in self._answers:
            task.cancel()
        await asyncio.gather(*self._answers, return_exceptions=True)

    def collect_reports(self, *, with_splits: bool = True) -> tuple[WorkerReport, ...]:
        """Return the newest report of each worker."""
        return tuple(self._reports.values())

    def set_taps(self, requests: Sequence[TapRequest]) -> None:
        """Pass the requests to all workers that run subtasks."""
        self._taps = tuple(requests)
        for number in self._starting:
            self._tell(number, SetTaps(self._taps))

    def on_message(self, number: int, message: object) -> None:
        """Handle a message of a worker."""
        match message:
            case WorkerReport():
                self._reports[number] = message
            case AttemptStarted():
                _settle(self._starting[number])
            case AttemptRejected(error):
                if number in self._replaced:
                    self.send(SubtaskFailed(self._find_subtask(number), build_failure(error)))
                else:
                    _settle(self._starting[number], error)
            case AttemptCancelled():
                _settle(self._cancelling[number])
            case ConnectorRequest():
                task = asyncio.create_task(self._answer(self.workers[number], message))
                self._answers.add(task)
                task.add_done_callback(self._answers.discard)
            case TapSample():
                self.spec.report_sample(message)
            case UserNotice(line):
                self.spec.run_context.notify_user(line)
            case SnapshotAcknowledged(_, _, snapshot) | SubtaskFinished(_, snapshot):
                if self.spec.store is not None:
                    self.spec.store.adopt(find_blobs(snapshot.states))
                self.send(message)
            case _:
                self.send(message)  # type: ignore[arg-type]

    def replace_lost(
        self, descriptions: Mapping[str, Document], migrated_steps: frozenset[str]
    ) -> None:
        """Start a process for each worker that was lost."""
        self.descriptions = descriptions
        self.spec = replace(self.spec, migrated_steps=migrated_steps)
        for number in sorted(set(self._placement.values()) - self.workers.keys()):
            self.workers[number] = self.start_worker(number)
            self._replaced.add(number)

    def on_lost(self, number: int, why: str) -> None:
        """Restart the regions that a lost worker ran, or fail the attempt."""
        if self.workers.pop(number, None) is None:
            return
        if (report := self._reports.get(number)) is not None:
            self._reports[number] = replace(report, worker=None)
        can_restart = self._has_whole_regions(number) and number not in self._cancelling
        for futures in (self._starting, self._cancelling):
            if number in futures:
                _settle(futures[number])
        failure = Failure(
            f"worker {number} was lost: {why}",
            "workers",
            hint="memory may have run out: the system's log says so" if "SIGKILL" in why else "",
            is_transient=True,
            is_worker_lost=True,
        )
        if can_restart:
            own = frozenset(id for id, at in self._placement.items() if at == number)
            self.send(RegionsLost(number, own, failure))
        else:
            self.send(SubtaskFailed(self._find_subtask(number), failure))

    def _has_whole_regions(self, number: int) -> bool:
        """Whether a worker has begun to run subtasks, none of them connected to another worker."""
        if number not in self._starting or not self._starting[number].done():
            return False
        lost = find_lost_subtasks(find_regions(self.spec.plan), self._placement, number)
        return all(self._placement[subtask] == number for subtask in lost)

    def _find_subtask(self, number: int) -> SubtaskId:
        """Return a subtask of a worker, to which its failure is attributed."""
        return next((id for id, at in self._placement.items() if at == number), SubtaskId(0, 0))

    async def _deploy(self, deploy: Deploy) -> None:
        """Start the subtasks on their workers. Raises the error of a worker that could not."""
        if self._placement:
            self._deploy_again(deploy)
            return
        numbers = [*self.workers]
        if not numbers:  # all were lost meanwhile, which has failed the attempt
            return
        placement = place_subtasks(self.spec.plan, len(numbers))
        self._placement = {id: numbers[at] for id, at in placement.items()}
        loop = asyncio.get_running_loop()
        ends = self._connect_workers()
        for number, worker in self.workers.items():
            self._starting[number] = loop.create_future()
            peers = ends.get(number, {})
            start = self._build_start(number, deploy, tuple(peers))
            worker.control.post(AttemptMessage(self.attempt, start), tuple(peers.values()))
            self._tell_taps(number)
        started = [*self._starting.values()]
        await asyncio.wait(started)
        for future in started:
            future.result()

    def _deploy_again(self, deploy: Deploy) -> None:
        """Start restarted subtasks on the workers that replace the lost ones."""
        for number in sorted({self._placement[id] for id in deploy.subtasks} & self.workers.keys()):
            # The rows that the lost worker has counted after its last snapshot count no more.
            self._reports.pop(number, None)
            start = self._build_start(number, deploy, ())
            self.workers[number].control.post(AttemptMessage(self.attempt, start))
            self._tell_taps(number)

    def _build_start(self, number: int, deploy: Deploy, peers: Sequence[int]) -> StartAttempt:
        own = tuple(id for id in deploy.subtasks if self._placement[id] == number)
        spec = self.spec
        return StartAttempt(
            self.attempt,
            {part.name: part.parallelism for part in spec.plan},
            self._placement,
            spec.worker_count,
            tuple(peers),
            replace(deploy, subtasks=own),
            spec.is_aligned,
            spec.migrated_steps,
            self.descriptions,
        )

    def _connect_workers(self) -> dict[int, dict[int, StreamEnd]]:
        """Return the end of a stream for each worker to each of its peers.

        Raises ConnectorError if the system does not allow this number.
        """
        talking = {
            frozenset((self._placement[writer], self._placement[reader]))
            for _, writer, reader in list_channels(self.spec.plan)
        }
        ends: dict[int, dict[int, StreamEnd]] = {}
        for one, other in combinations(self.workers, 2):
            if {one, other} in talking:
                try:
                    pair = self.open_pair()
                except OSError as error:
                    for end in (end for of_one in ends.values() for end in of_one.values()):
                        end.close()
                    message = f"{len(self.workers)} workers cannot be connected: {error.strerror}"
                    hint = "raise the limit of open files (ulimit -n), or use fewer workers"
                    raise ConnectorError(message, hint) from error
                ends.setdefault(one, {})[other] = pair[0]
                ends.setdefault(other, {})[one] = pair[1]
        return ends

    def _tell_taps(self, number: int) -> None:
        """Pass the taps to a worker that has just been told to start its subtasks."""
        if self._taps:
            self._tell(number, SetTaps(self._taps))

    def _tell(self, number: int, command: object) -> None:
        if number in self.workers:
            self.workers[number].control.post(AttemptMessage(self.attempt, command))

    async def _answer(self, worker: WorkerHandle, request: ConnectorRequest) -> None:
        """Answer a request of a worker's half of a connector, unless the worker is lost."""
        try:
            document = await self.connectors.answer(request.part, request.document)
        except Exception as error:
            reply = ConnectorReply(request.number, None, error)
        else:
            reply = ConnectorReply(request.number, document)
        if self.workers.get(worker.number) is worker:
            worker.control.post(AttemptMessage(self.attempt, reply))


def _settle(future: asyncio.Future[None], error: Exception | None = None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
