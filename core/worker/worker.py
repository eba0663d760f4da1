"""The worker: starts the subtasks of one process, delivers messages to them, and ends them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from headrace.core.api.failures import ConnectorError, build_failure
from headrace.core.api.kernel_executor import KernelExecutor, wait_until_done
from headrace.core.api.splits import SubtaskId
from headrace.core.coordination.messages import (
    AbortOutput,
    AssignSplits,
    AttemptCancelled,
    Cancel,
    CommitOutput,
    CoordinatorEvent,
    Deploy,
    PauseSources,
    SetDriftLimit,
    StopSources,
    SubtaskCommitted,
    SubtaskFailed,
    SubtaskFinished,
    TriggerCheckpoint,
    WorkerCommand,
)
from headrace.core.sources.source_task import SourceTask
from headrace.core.worker.connectors import OpenConnectors
from headrace.core.worker.report import WorkerReport, collect_report
from headrace.core.worker.subtask_builder import Subtask, SubtaskBuilder

COMMIT_TIMEOUT_S = 2.0
"""The time to wait at the end for commits in progress."""
ABORT_TIMEOUT_S = 10.0
"""The time to wait for an abort: prepared output is not visible in any case."""


class Worker:
    """A worker, which runs all subtasks. `send` sends its messages to the coordinator."""

    def __init__(
        self,
        assembly: SubtaskBuilder,
        ends: OpenConnectors,
        kernel_executor: KernelExecutor,
        send: Callable[[CoordinatorEvent], None],
    ) -> None:
        self._subtask_builder = assembly
        self._connectors = ends
        self._executor = kernel_executor
        self._send = send
        self._tasks: dict[asyncio.Task[None], SubtaskId] = {}
        self._source_tasks: dict[SubtaskId, SourceTask] = {}
        self._attempt = 0
        self._waiting_commits: dict[str, deque[CommitOutput]] = {}
        self._commit_tasks: dict[str, asyncio.Task[None]] = {}
        """The commits that wait, by sink, and the tasks that execute them."""
        self.subtasks: dict[SubtaskId, Subtask] = {}

    def collect_report(self, *, with_splits: bool = True) -> WorkerReport:
        """Return the current statistics of all subtasks, also of those that have ended."""
        return collect_report(
            self.subtasks.values(),
            self._subtask_builder.plan,
            self._attempt,
            with_splits=with_splits,
        )

    async def receive(self, message: WorkerCommand) -> None:
        """Execute a command of the coordinator."""
        match message:
            case Deploy():
                await self._deploy_subtasks(message)
            case AssignSplits(subtask, splits, last):
                self._source_tasks[subtask].assign(splits, last=last)
            case SetDriftLimit(source, until_us):
                for subtask_id, source_task in self._source_tasks.items():
                    if self.subtasks[subtask_id].task.parts[0] == source:
                        source_task.set_drift_limit(until_us)
            case TriggerCheckpoint(number):
                for source_task in self._source_tasks.values():
                    source_task.trigger_checkpoint(number)
            case PauseSources():
                for source_task in self._source_tasks.values():
                    source_task.halt()
            case StopSources(drains):
                for each in self.subtasks.values():
                    each.keeps_final_state = drains
                for source_task in self._source_tasks.values():
                    source_task.stop()
            case CommitOutput(subtask, _):
                self._enqueue_commit(self._find_sink(subtask), message)
            case AbortOutput(subtask, handle):
                # Output that cannot be removed now is removed before the next attempt writes.
                with suppress(ConnectorError, TimeoutError):
                    async with asyncio.timeout(ABORT_TIMEOUT_S):
                        await self._connectors.sinks[self._find_sink(subtask)].abort(handle)
            case Cancel():
                await self.cancel()
                self._send(AttemptCancelled())

    async def _deploy_subtasks(self, deploy: Deploy) -> None:
        self._attempt = deploy.attempt
        assemble = partial(self._subtask_builder.build_subtasks, self._send, deploy)
        for subtask in await self._executor.run_blocking(assemble):
            self.subtasks[subtask.id] = subtask
            if subtask.source_task is not None:
                self._source_tasks[subtask.id] = subtask.source_task
            self._tasks[asyncio.create_task(self._run_subtask(subtask))] = subtask.id

    async def _run_subtask(self, subtask: Subtask) -> None:
        try:
            snapshot = await subtask.run()
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also a panic of Polars, which is no Exception
            self._send(SubtaskFailed(subtask.id, build_failure(error, *subtask.task.parts)))
        else:
            self._send(SubtaskFinished(subtask.id, snapshot))
        finally:
            # A failed subtask is cancelled as well once its failure is known: close it first.
            await wait_until_done(asyncio.create_task(subtask.close()))

    def _enqueue_commit(self, sink: str, commit: CommitOutput) -> None:
        """Commit output after the earlier commits of the same sink."""
        self._waiting_commits.setdefault(sink, deque()).append(commit)
        if sink not in self._commit_tasks:
            self._commit_tasks[sink] = asyncio.create_task(self._run_commits(sink))

    async def _run_commits(self, sink: str) -> None:
        commits = self._waiting_commits[sink]
        try:
            while commits:
                await self._commit_output(sink, commits.popleft())
        finally:
            del self._commit_tasks[sink]

    async def _commit_output(self, sink: str, commit: CommitOutput) -> None:
        try:
            await self._connectors.sinks[sink].commit(commit.handle)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._send(SubtaskFailed(commit.subtask, build_failure(error, sink)))
        else:
            self._send(SubtaskCommitted(commit.subtask))

    def _find_sink(self, subtask: SubtaskId) -> str:
        return self.subtasks[subtask].task.parts[-1]

    async def cancel(self) -> None:
        """End every subtask, whatever it is doing, and wait until none runs any more.

        Output named by a checkpoint is committed if that can be done soon: after a commit that has
        failed for good, there may be no later attempt to commit the others in time.
        """
        if self._commit_tasks:
            await asyncio.wait(self._commit_tasks.values(), timeout=COMMIT_TIMEOUT_S)
        tasks = [*self._tasks, *self._commit_tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
