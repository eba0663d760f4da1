"""The worker: starts the subtasks of one process, delivers messages to them, and ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.api.failures import build_failure
from headrace.core.api.kernel_executor import KernelExecutor, wait_until_done
from headrace.core.api.splits import SubtaskId
from headrace.core.api.taps import TapRequest
from headrace.core.coordination.messages import (
    AssignSplits,
    AttemptCancelled,
    BeginLoopWave,
    Cancel,
    CoordinatorEvent,
    Deploy,
    PauseSources,
    ReleaseLoopTime,
    SetDriftLimit,
    StopSources,
    SubtaskFailed,
    SubtaskFinished,
    TriggerCheckpoint,
    WorkerCommand,
)
from headrace.core.sources.source_task import SourceTask
from headrace.core.worker.report import WorkerReport, collect_report
from headrace.core.worker.subtask_builder import Subtask, SubtaskBuilder
from headrace.core.worker.tap_sampler import TapSampler

if TYPE_CHECKING:
    from headrace.core.dataflow.loop_task import LoopTask


class Worker:
    """A worker, which runs all subtasks. `send` sends its messages to the coordinator."""

    def __init__(
        self,
        assembly: SubtaskBuilder,
        kernel_executor: KernelExecutor,
        send: Callable[[CoordinatorEvent], None],
        tap_sampler: TapSampler,
    ) -> None:
        self._subtask_builder = assembly
        self._executor = kernel_executor
        self._send = send
        self._tap_sampler = tap_sampler
        self._tasks: dict[asyncio.Task[None], SubtaskId] = {}
        self._source_tasks: dict[SubtaskId, SourceTask] = {}
        self._loop_tasks: dict[SubtaskId, LoopTask] = {}
        self._attempt = 0
        self.subtasks: dict[SubtaskId, Subtask] = {}

    def collect_report(self, *, with_splits: bool = True) -> WorkerReport:
        """Return the current statistics of all subtasks, also of those that have ended."""
        return collect_report(
            self.subtasks.values(),
            self._subtask_builder.plan,
            self._attempt,
            with_splits=with_splits,
        )

    def set_taps(self, requests: Iterable[TapRequest]) -> None:
        """Sample the rows of these streams, and no others."""
        self._tap_sampler.set_taps(requests, self.subtasks.values())

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
                for loop_task in self._loop_tasks.values():
                    loop_task.trigger_checkpoint(number)
            case BeginLoopWave(_, subtasks, wave):
                for subtask in subtasks:
                    self._loop_tasks[subtask].begin_wave(wave)
            case ReleaseLoopTime(_, subtasks):
                for subtask in subtasks:
                    self._loop_tasks[subtask].release_time(message)
            case PauseSources():
                for source_task in self._source_tasks.values():
                    source_task.halt()
            case StopSources(drains):
                for source_task in self._source_tasks.values():
                    source_task.stop(drains=drains)
            case Cancel():
                await self.cancel()
                self._send(AttemptCancelled())

    async def _deploy_subtasks(self, deploy: Deploy) -> None:
        self._attempt = deploy.attempt
        assemble = partial(self._subtask_builder.build_subtasks, self._send, deploy)
        for subtask in await self._executor.run_blocking(assemble):
            self.subtasks[subtask.id] = subtask
            self._tap_sampler.install(subtask)
            if subtask.source_task is not None:
                self._source_tasks[subtask.id] = subtask.source_task
            if subtask.loop_task is not None:
                self._loop_tasks[subtask.id] = subtask.loop_task
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

    async def cancel(self) -> None:
        """End every subtask, whatever it is doing, and wait until none runs any more."""
        self._tap_sampler.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
