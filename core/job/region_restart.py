"""The restarts of regions within an attempt: the delay, the state to restore, new workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.failures import build_failure
from headrace.core.api.splits import Failure
from headrace.core.coordination.events import RegionsRestarted, RegionsRestarting
from headrace.core.coordination.messages import RegionsReady, RestartRegions, RestoredState
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.job.spec import JobSpec
from headrace.core.plan.layout import enumerate_subtasks, list_subtask_ids
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.connectors import OpenConnectors
from headrace.core.worker.pool import WorkerPool

if TYPE_CHECKING:
    from headrace.core.checkpoint.manifest import RestoredCheckpoint

ChooseDelay: TypeAlias = "Callable[[Failure, int], float | None]"
"""Returns the delay before a restart after a failure, from a checkpoint; None: there is none."""


@dataclass(slots=True)
class RegionRestarts:
    """Prepares the restarts of regions; a restart that cannot be made fails the attempt."""

    spec: JobSpec
    base: RestoredCheckpoint | None
    """The checkpoint that the attempt resumed from."""
    connectors: OpenConnectors
    workers: WorkerPool
    choose_delay: ChooseDelay
    send: Callable[[RegionsReady], None]
    fail: Callable[[Failure], None]
    _task: asyncio.Task[None] | None = None

    def receive(self, command: RestartRegions) -> None:
        """Begin a restart, in place of one that is being prepared. Does not wait."""
        self._task = asyncio.create_task(self._restart(command, self._task))

    async def close(self) -> None:
        """End the preparation of a restart."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _restart(self, command: RestartRegions, earlier: asyncio.Task[None] | None) -> None:
        if earlier is not None:
            earlier.cancel()
            await asyncio.gather(earlier, return_exceptions=True)
        number = command.checkpoint or (self.base.number if self.base else 0)
        delay_s = self.choose_delay(command.failure, number)
        if delay_s is None:
            self.fail(command.failure)
            return
        assert self.spec.storage is not None
        report, restarted = self.spec.storage.report_event, len(command.subtasks)
        count = len(list_subtask_ids(self.spec.plan))
        report(RegionsRestarting(command.failure, delay_s, number or None, restarted, count))
        await asyncio.sleep(delay_s)
        try:
            restored = await self._prepare(command)
        except Exception as error:
            self.fail(build_failure(error, "restart"))
            return
        self.send(RegionsReady(command.restart, restored))
        report(RegionsRestarted(number or None, restarted))

    async def _prepare(self, command: RestartRegions) -> RestoredState:
        """Make sources, sinks and workers ready; return the state to restore.

        Without a checkpoint of this attempt, each reader gets its splits as at its start.
        """
        checkpoint = await self._read_checkpoint(command.checkpoint)
        restored = checkpoint.restored_state if checkpoint else RestoredState()
        splits = dict(restored.splits) if command.checkpoint is not None else {}
        for task, ids in enumerate_subtasks(self.spec.plan):
            lost = frozenset(id.index for id in ids if id in command.subtasks)
            source, sink = task.parts[0], task.parts[-1]
            if lost and source in splits:
                own = {
                    split: progress
                    for split, progress in splits[source].items()
                    if split.number % len(ids) in lost
                }
                with attribute_errors_to(source):
                    splits[source] = await self.connectors.sources[source].restore(own)
            if lost and sink in self.connectors.sinks:
                with attribute_errors_to(sink):
                    await self.connectors.sinks[sink].end_lost_writers(lost)
        descriptions = await self.connectors.describe_for_workers()
        migrated = checkpoint.migrated_steps if checkpoint else frozenset[str]()
        self.workers.replace_lost(descriptions, migrated)
        return replace(restored, splits=splits)

    async def _read_checkpoint(self, number: int | None) -> RestoredCheckpoint | None:
        if number is None:
            return self.base
        storage, plan = self.spec.storage, self.spec.plan
        assert storage is not None
        executor = self.spec.run_context.kernel_executor
        return await executor.run_blocking(partial(storage.read, number, plan))
