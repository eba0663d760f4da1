"""One attempt of a job: the shell around a coordinator, a worker and the checkpoint store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from headrace.core.api.failures import build_failure
from headrace.core.api.kernel_executor import wait_until_done
from headrace.core.api.snapshots import RefusedSnapshot, SnapshotError, UnknownOutcome
from headrace.core.api.sources import SourceCoordinator
from headrace.core.api.splits import Failure, Split
from headrace.core.checkpoint.commit_record import (
    OffsetReporter,
    record_committed,
    record_completed,
)
from headrace.core.checkpoint.counters import JobCounters
from headrace.core.checkpoint.manifest import RestoredCheckpoint
from headrace.core.checkpoint.storage import CheckpointPins
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
    WriteManifest,
)
from headrace.core.errors import failpoints
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.job.committer import SinkCommitter
from headrace.core.job.recovery import commit_restored_output, discover_splits
from headrace.core.job.requests import CheckpointRequests, RequestRejected
from headrace.core.job.spec import JobSpec
from headrace.core.plan.layout import list_subtask_ids
from headrace.core.worker.connectors import (
    OpenConnectors,
    WorkerConnectors,
    build_split_assigners,
    build_watermark_alignments,
    open_connectors,
    open_worker_connectors,
)
from headrace.core.worker.report import WorkerReport
from headrace.core.worker.statistics import PartCounts, measure_pauses, sum_part_counts
from headrace.core.worker.subtask_builder import SubtaskBuilder, build_channels
from headrace.core.worker.worker import Worker

CoordinatorCall: TypeAlias = "Callable[[Coordinator, float], list[CoordinatorAction]]"
"""A call of the coordinator at a time of the loop; it returns the messages to deliver."""


@dataclass(slots=True)
class Attempt:
    """One attempt: from a checkpoint, or from the start, to the end or the first failure."""

    spec: JobSpec
    restored_checkpoint: RestoredCheckpoint | None = None
    number: int = 1
    _coordinator: Coordinator | None = None
    _worker: Worker | None = None
    _connectors: OpenConnectors | None = None
    _worker_connectors: WorkerConnectors | None = None
    _committer: SinkCommitter | None = None
    _mailbox: asyncio.Queue[CoordinatorCall] = field(default_factory=asyncio.Queue)
    _manifest_task: asyncio.Task[None] | None = None
    _record_task: asyncio.Task[None] | None = None
    _permanent_error: RefusedSnapshot | None = None
    """The error after which no checkpoint may be written."""
    _requests: CheckpointRequests = field(init=False)
    _offset_reporter: OffsetReporter = field(default_factory=OffsetReporter)

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
            self._requests.close(
                RequestRejected("the job has failed or ended before", "try again if it runs")
            )

    async def _run_with_connectors(self, deployed: Callable[[], None]) -> Coordinator:
        spec = self.spec
        ends = open_connectors(spec.plan, spec.connectors, spec.run_context)
        try:
            return await self._run_opened(ends, deployed)
        finally:
            await wait_until_done(asyncio.create_task(self._close_connectors(ends)))

    async def _close_connectors(self, ends: OpenConnectors) -> None:
        """Close the worker's halves before the coordinator's, which they may still send to."""
        if self._worker_connectors is not None:
            await self._worker_connectors.close()
        await ends.close()

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
            await self._deliver_messages(
                coordinator, coordinator.start(splits, begins, now), deployed
            )
        finally:
            for task in discovering:
                task.cancel()
            await asyncio.gather(*discovering, return_exceptions=True)
            if self._committer is not None:
                await self._committer.close()
            if self._worker is not None:
                await self._worker.cancel()
            if self._manifest_task is not None:
                await asyncio.gather(self._manifest_task, return_exceptions=True)
            if self._record_task is not None:
                self._record_task.cancel()
                await asyncio.gather(self._record_task, return_exceptions=True)
            await self._offset_reporter.close()
        if self._permanent_error is not None:
            raise self._permanent_error
        return coordinator

    async def _build_coordinator(self, ends: OpenConnectors) -> Coordinator:
        """Build the worker with all its subtasks. Return their coordinator."""
        spec, restored = self.spec, self.restored_checkpoint
        self._committer = SinkCommitter(spec.plan, ends.sinks, self._post_event)
        self._worker_connectors = open_worker_connectors(
            spec.plan,
            spec.connectors,
            spec.run_context,
            await ends.describe_for_workers(),
            ends.answer,
            ends.lookups,
        )
        builder = SubtaskBuilder(
            spec.plan,
            self._worker_connectors,
            spec.run_context,
            spec.bounds,
            spec.operator_context,
            spec.storage.store if spec.storage else None,
            channels=build_channels(spec.plan, spec.bounds),
            aligned=spec.storage is None or spec.storage.is_aligned,
            changed=restored.migrated_steps if restored else frozenset(),
        )
        self._worker = Worker(builder, spec.run_context.kernel_executor, self._post_event)
        self._offset_reporter = OffsetReporter(ends.sources)
        self._connectors = ends
        return Coordinator(
            list_subtask_ids(spec.plan),
            build_split_assigners(spec.plan, ends),
            build_watermark_alignments(spec.plan),
            await self._build_checkpoint_coordinator(),
            self.number,
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
        return sum_part_counts(self.spec.plan, reports, before)

    def collect_reports(self, *, with_splits: bool = True) -> tuple[WorkerReport, ...]:
        """Return the newest report of each worker; none before subtasks are deployed."""
        return (self._worker.collect_report(with_splits=with_splits),) if self._worker else ()

    def _post(self, what: CoordinatorCall) -> None:
        self._mailbox.put_nowait(what)

    def _fail(self, failed: Failure) -> None:
        self._post(lambda coordinator, now: coordinator.fail(failed))

    def _post_event(self, message: CoordinatorEvent) -> None:
        self._post(lambda coordinator, now: coordinator.receive(message, now))

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
        assert self._worker is not None and self._committer is not None
        match message:
            case WriteManifest():
                self._manifest_task = asyncio.create_task(self._write_manifest(message))
            case OutputCommitted(number):
                self._record_task = asyncio.create_task(self._record_commit(number))
            case CheckpointCompleted() | CheckpointFailed():
                assert self.spec.storage is not None
                self.spec.storage.report_event(
                    message, measure_pauses(self.collect_reports(with_splits=False))
                )
                if isinstance(message, CheckpointFailed):
                    self._requests.fail(message.number, message.reason)
            case CommitOutput():
                self._committer.commit(message)
            case AbortOutput():
                await self._committer.abort(message)
            case Cancel():
                await self._committer.close()
                await self._worker.receive(message)
            case _:
                await self._worker.receive(message)

    async def _write_manifest(self, keep: WriteManifest) -> None:
        """Write the manifest of a checkpoint."""
        spec = self.spec
        assert spec.storage is not None
        failpoints.failpoint("manifest.before")
        try:
            archive = spec.run_context.snapshot_executor or spec.run_context.kernel_executor
            await archive.run_blocking(
                partial(spec.storage.write, keep, spec.plan, self.restored_checkpoint)
            )
        except UnknownOutcome as error:
            # Only the next attempt can find out whether the manifest exists.
            self._fail(Failure(error.message, "checkpoints", hint=error.hint))
        except RefusedSnapshot as error:
            self._fail_permanently(error)
        except SnapshotError as error:
            self._post_event(ManifestFailed(keep.number, error.message))
        except BaseException as error:
            self._fail(build_failure(error, "checkpoints"))
            raise
        else:
            failpoints.failpoint("manifest.after")
            # A task of its own, because it may be cancelled while it waits for the disk.
            self._record_task = asyncio.create_task(self._record_completion(keep))

    async def _record_completion(self, keep: WriteManifest) -> None:
        """Record that a checkpoint is complete, so that its output may be committed."""
        assert self.spec.storage is not None
        with self._fail_on_snapshot_error():
            await record_completed(keep.number, self.spec.storage, self.spec.run_context)
            failpoints.failpoint("completed")
            self._post_event(ManifestWritten(keep.number))
            self._offset_reporter.report(keep)

    async def _record_commit(self, number: int) -> None:
        """Record that the output of a checkpoint is committed."""
        assert self.spec.storage is not None
        failpoints.failpoint("noting")
        with self._fail_on_snapshot_error():
            await record_committed(number, self.spec.storage, self.spec.run_context)
            failpoints.failpoint("noted")
            if self._connectors is not None:
                self._connectors.on_commits_recorded()
            self._requests.complete(number)
            self._post_event(CommitRecorded(number))

    @contextmanager
    def _fail_on_snapshot_error(self) -> Iterator[None]:
        """Fail the attempt if a record cannot be written."""
        try:
            yield
        except RefusedSnapshot as error:
            self._fail_permanently(error)
        except SnapshotError as error:
            self._fail(build_failure(error, "checkpoints"))

    def _fail_permanently(self, error: RefusedSnapshot) -> None:
        """Fail the attempt and the job: no attempt may write any more."""
        self._permanent_error = error
        self._fail(Failure(error.message, "checkpoints", hint=error.hint))

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
