"""One attempt of a job: the shell around a coordinator, a worker and the checkpoint store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.failures import build_failure
from headrace.core.api.kernel_executor import wait_until_done
from headrace.core.api.sources import SourceCoordinator
from headrace.core.api.splits import Failure, Split
from headrace.core.checkpoint.counters import JobCounters, add_snapshots
from headrace.core.checkpoint.pins import CheckpointPins
from headrace.core.coordination.checkpoint_coordinator import CheckpointCoordinator
from headrace.core.coordination.coordinator import Coordinator
from headrace.core.coordination.messages import (
    AbortOutput,
    Cancel,
    CheckpointCompleted,
    CheckpointFailed,
    CommitOutput,
    CommitRecorded,
    CoordinatorAction,
    CoordinatorEvent,
    ManifestFailed,
    ManifestWritten,
    OutputCommitted,
    RestartRegions,
    WriteManifest,
)
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.job.committer import SinkCommitter
from headrace.core.job.recovery import commit_restored_output, discover_splits
from headrace.core.job.region_restart import ChooseDelay, RegionRestarts
from headrace.core.job.requests import CheckpointRequests, InterruptedRequest, RequestRejected
from headrace.core.job.spec import JobSpec
from headrace.core.job.taps import JobTaps
from headrace.core.plan.layout import list_subtask_ids
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.connectors import (
    OpenConnectors,
    build_loop_waves,
    build_split_assigners,
    build_watermark_alignments,
    open_connectors,
)
from headrace.core.worker.pool import WorkerPool, WorkerSpec
from headrace.core.worker.report import WorkerReport
from headrace.core.worker.statistics import PartCounts, measure_pauses, sum_part_counts

if TYPE_CHECKING:
    from headrace.core.checkpoint.checkpoint_writer import CheckpointWriter
    from headrace.core.checkpoint.manifest import RestoredCheckpoint

CoordinatorCall: TypeAlias = "Callable[[Coordinator, float], list[CoordinatorAction]]"
"""A call of the coordinator at a time of the loop; it returns the messages to deliver."""


@dataclass(slots=True)
class Attempt:
    """One attempt: from a checkpoint, or from the start, to the end or the first failure."""

    spec: JobSpec
    restored_checkpoint: RestoredCheckpoint | None = None
    number: int = 1
    choose_delay: ChooseDelay = lambda failure, checkpoint: None
    """Chooses the delay before regions of it restart; None fails the attempt."""
    taps: JobTaps = field(default_factory=JobTaps)
    _coordinator: Coordinator | None = None
    _workers: WorkerPool | None = None
    _connectors: OpenConnectors | None = None
    _committer: SinkCommitter | None = None
    _mailbox: asyncio.Queue[CoordinatorCall] = field(default_factory=asyncio.Queue)
    _region_restarts: RegionRestarts | None = None
    _checkpoint_writer: CheckpointWriter | None = None
    """The writer of its checkpoints, if it takes any."""
    _requests: CheckpointRequests = field(init=False)

    def __post_init__(self) -> None:
        storage = self.spec.storage
        self._requests = CheckpointRequests(storage.pins if storage else CheckpointPins())

    async def run(self, deployed: Callable[[], None] = lambda: None) -> Coordinator:
        """Run to the end. Return the coordinator, which knows how the attempt ended.

        Raises ConnectorError or SnapshotError for errors before anything is read.
        """
        try:
            return await self._run_with_connectors(deployed)
        finally:
            self._requests.close(self._explain_end())

    def _explain_end(self) -> RequestRejected:
        """Return the reason to reject requests that the attempt has not served."""
        hint = "try again if it runs"
        failure = self._coordinator.failure if self._coordinator else None
        if failure is None:
            return RequestRejected("the job has failed or ended before", hint)
        why = f"the job has failed before its checkpoint was complete: {failure.message}"
        return InterruptedRequest(why, hint)

    async def _run_with_connectors(self, deployed: Callable[[], None]) -> Coordinator:
        spec = self.spec
        ends = open_connectors(spec.plan, spec.connectors, spec.run_context)
        try:
            return await self._run_opened(ends, deployed)
        finally:
            await wait_until_done(asyncio.create_task(ends.close()))

    async def _run_opened(self, ends: OpenConnectors, deployed: Callable[[], None]) -> Coordinator:
        spec, restored = self.spec, self.restored_checkpoint
        if restored is not None and spec.storage is not None:
            await commit_restored_output(restored, ends, spec.storage, spec.run_context)
            if restored.is_final:
                # Output that belongs to no checkpoint is left to remove.
                await ends.check_sinks()
                return Coordinator((), {}, state="done")
        begins, splits = await discover_splits(ends, restored)
        coordinator = self._coordinator = await self._build_coordinator(ends)
        now = asyncio.get_running_loop().time()
        discovering = [
            asyncio.create_task(self._rediscover_splits(name, source, coordinator))
            for name, source in ends.sources.items()
            if source.discovery_interval_s is not None
        ]
        try:
            assert self._workers is not None
            self.taps.attach(self._workers)
            await self._deliver_messages(
                coordinator, coordinator.start(splits, begins, now), deployed
            )
        finally:
            self.taps.detach()
            for task in discovering:
                task.cancel()
            await asyncio.gather(*discovering, return_exceptions=True)
            await self._end_restarts_and_commits()
            if self._workers is not None:
                await self._workers.cancel()
            if self._checkpoint_writer is not None:
                await self._checkpoint_writer.close()
        if self._checkpoint_writer is not None and self._checkpoint_writer.permanent_error:
            raise self._checkpoint_writer.permanent_error
        return coordinator

    async def _build_coordinator(self, ends: OpenConnectors) -> Coordinator:
        """Start the workers. Return the coordinator of their subtasks."""
        spec, restored, storage = self.spec, self.restored_checkpoint, self.spec.storage
        worker_spec = WorkerSpec(
            spec.plan,
            self.number,
            spec.connectors,
            spec.run_context,
            spec.operator_context,
            spec.bounds,
            storage.store if storage else None,
            is_aligned=storage is None or storage.is_aligned,
            migrated_steps=frozenset(restored.migrated_steps) if restored else frozenset(),
            worker_count=spec.worker_count,
            report_sample=self.taps.receive,
        )
        self._connectors = ends
        self._committer = SinkCommitter(spec.plan, ends.sinks, self._post_event)
        self._workers = await spec.workers.start_attempt(worker_spec, ends, self._post_event)
        self._region_restarts = RegionRestarts(
            spec, restored, ends, self._workers, self.choose_delay, self._post_event, self._fail
        )
        if storage is not None:
            from headrace.core.checkpoint.checkpoint_writer import CheckpointWriter

            self._checkpoint_writer = CheckpointWriter(
                storage,
                spec.plan,
                restored,
                spec.run_context,
                ends.sources,
                self._post_checkpoint_event,
                self._fail,
            )
        return Coordinator(
            list_subtask_ids(spec.plan),
            build_split_assigners(spec.plan, ends),
            build_watermark_alignments(spec.plan),
            await self._build_checkpoint_coordinator(),
            attempt=self.number,
            loops=build_loop_waves(spec.plan),
        )

    def stop(self, *, drains: bool = False) -> None:
        """Request the end of the attempt."""

        def stop_coordinator(coordinator: Coordinator, now: float) -> list[CoordinatorAction]:
            messages = coordinator.stop(now, drains=drains)
            if coordinator.is_draining and coordinator.checkpoints is not None:
                # While draining, only the final checkpoint is valid.
                why = RequestRejected("the job is draining, and takes no checkpoint before its end")
                self._requests.reject_after(coordinator.checkpoints.number, why)
            return messages

        self._post(stop_coordinator)

    def stop_for_rescale(self, halted: Callable[[], None]) -> None:
        """Request the end of the attempt, and call back when the stop has begun."""

        def halt_coordinator(coordinator: Coordinator, now: float) -> list[CoordinatorAction]:
            halted()
            return coordinator.stop(now)

        self._post(halt_coordinator)

    def describe_awaited(self) -> str:
        """Describe what the end of the attempt waits for, with the tasks that have not answered."""
        if self._coordinator is None:
            return "its start"
        what, subtasks = self._coordinator.get_awaited()
        tasks = self.spec.plan.tasks
        names = [" > ".join(tasks[number].parts) for number in sorted({s.task for s in subtasks})]
        return f"{what}: {', '.join(names)}" if names else what

    async def take_checkpoint(self) -> int:
        """Take a checkpoint of all input so far. Return its number once its output is committed.

        It is pinned until the caller releases it. Raises RequestRejected.
        """
        request = self._requests.add()
        self._post(partial(self._request_checkpoint, request=request))
        try:
            return await request
        except asyncio.CancelledError:
            self._requests.cancel(request)
            raise

    def _request_checkpoint(
        self, coordinator: Coordinator, now: float, request: asyncio.Future[int]
    ) -> list[CoordinatorAction]:
        begun = coordinator.request_checkpoint(now)
        if begun is None:
            why = "the job is about to end, and takes no more checkpoints"
            self._requests.reject(request, RequestRejected(why))
            return []
        number, messages = begun
        self._requests.assign_checkpoint(request, number)
        return messages

    def collect_counts(self) -> dict[str, PartCounts]:
        """Return the row counts of every part so far."""
        return self.sum_counts(self.collect_reports(with_splits=False))

    def sum_counts(self, reports: Iterable[WorkerReport]) -> dict[str, PartCounts]:
        """Return the row counts of every part in these reports, and before this attempt."""
        before = self.restored_checkpoint.counters if self.restored_checkpoint else JobCounters()
        if self._coordinator is not None and self._coordinator.checkpoints is not None:
            before = add_snapshots(before, self._coordinator.checkpoints.earlier_snapshots)
        return sum_part_counts(self.spec.plan, reports, before)

    def collect_reports(self, *, with_splits: bool = True) -> tuple[WorkerReport, ...]:
        """Return the newest report of each worker; none before subtasks are deployed."""
        return self._workers.collect_reports(with_splits=with_splits) if self._workers else ()

    def _post(self, what: CoordinatorCall) -> None:
        self._mailbox.put_nowait(what)

    def _fail(self, failed: Failure) -> None:
        self._post(lambda coordinator, now: coordinator.fail(failed))

    def _post_event(self, message: CoordinatorEvent) -> None:
        self._post(lambda coordinator, now: coordinator.receive(message, now))

    def _post_checkpoint_event(
        self, message: ManifestWritten | ManifestFailed | CommitRecorded
    ) -> None:
        if isinstance(message, CommitRecorded):
            if self._connectors is not None:
                self._connectors.on_commits_recorded()
            # Also for an attempt that has failed meanwhile: the output is committed.
            self._requests.complete(message.number)
        self._post_event(message)

    async def _deliver_messages(
        self,
        coordinator: Coordinator,
        first: Sequence[CoordinatorAction],
        deployed: Callable[[], None],
    ) -> None:
        """Deliver messages until the attempt is over."""
        loop = asyncio.get_running_loop()
        for message in first:
            await self._deliver_message(message)
        deployed()
        spec = self.spec
        if spec.storage is not None and self.number == 1:
            await spec.run_context.kernel_executor.run_blocking(spec.storage.on_deployed)
        while not coordinator.is_over:
            event = await self._next_call(coordinator.next_deadline())
            for message in event(coordinator, loop.time()):
                await self._deliver_message(message)

    async def _next_call(self, due: float | None) -> CoordinatorCall:
        """Return the next call of the coordinator; `tick` if none comes before its time."""
        try:
            async with asyncio.timeout_at(due):
                return await self._mailbox.get()
        except TimeoutError:
            return Coordinator.tick

    async def _deliver_message(self, message: CoordinatorAction) -> None:
        assert self._workers is not None
        assert self._committer is not None
        match message:
            case WriteManifest() | OutputCommitted():
                assert self._checkpoint_writer is not None
                self._checkpoint_writer.receive(message)
            case CheckpointCompleted() | CheckpointFailed():
                assert self.spec.storage is not None
                self.spec.storage.report_event(
                    message, measure_pauses(self.collect_reports(with_splits=False))
                )
                if isinstance(message, CheckpointFailed) and message.is_repeated:
                    self._requests.postpone(message.number)
                elif isinstance(message, CheckpointFailed):
                    self._requests.fail(message.number, message.reason)
            case CommitOutput():
                self._committer.commit(message)
            case AbortOutput():
                await self._committer.abort(message)
            case RestartRegions():
                assert self._region_restarts is not None
                self._region_restarts.receive(message)
            case Cancel():
                await self._end_restarts_and_commits()
                await self._workers.receive(message)
            case _:
                await self._workers.receive(message)

    async def _end_restarts_and_commits(self) -> None:
        """Begin no more work that changes output."""
        if self._region_restarts is not None:
            await self._region_restarts.close()
        if self._committer is not None:
            await self._committer.close()

    async def _build_checkpoint_coordinator(self) -> CheckpointCoordinator | None:
        spec = self.spec
        if spec.storage is None:
            return None
        last = await spec.run_context.kernel_executor.run_blocking(spec.storage.find_highest_number)
        return CheckpointCoordinator(list_subtask_ids(spec.plan), spec.storage.schedule, last)

    async def _rediscover_splits(
        self, name: str, source: SourceCoordinator, coordinator: Coordinator
    ) -> None:
        """Discover the splits of a source at its interval, while they are read."""
        while coordinator.can_assign_splits(name):
            await asyncio.sleep(source.discovery_interval_s or 0)
            try:
                with attribute_errors_to(name):
                    found = await source.discover_splits(first=False)
            except Exception as error:
                self._fail(build_failure(error, name))
                return
            self._post(partial(_assign_discovered, source=name, splits=found))


def _assign_discovered(
    coordinator: Coordinator, now: float, source: str, splits: Sequence[Split]
) -> list[CoordinatorAction]:
    return coordinator.assign_discovered(source, splits)
