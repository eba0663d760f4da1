"""A job from start to end: its attempts, and the restarts between them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.core.api.failures import ConnectorError, build_failure
from headrace.core.api.kernel_executor import wait_until_done
from headrace.core.api.snapshots import SnapshotError
from headrace.core.api.splits import Failure, SubtaskId
from headrace.core.coordination.events import JobRestarting
from headrace.core.job.attempt import Attempt
from headrace.core.job.lifecycle import JobLifecycle, JobStatus
from headrace.core.job.requests import (
    InterruptedRequest,
    PendingRescale,
    RequestRejected,
    RescaleResult,
)
from headrace.core.job.spec import JobSpec
from headrace.core.job.taps import JobTaps
from headrace.core.plan import nodes
from headrace.core.plan.placement import PlacedTask, group_by_worker
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.report import SubtaskStatistics, WorkerIdentity, WorkerReport
from headrace.core.worker.statistics import PartCounts, map_workers
from headrace.core.worker.time_shares import TimeShareSampler

if TYPE_CHECKING:
    from headrace.core.checkpoint.manifest import RestoredCheckpoint
    from headrace.core.checkpoint.storage import CheckpointStorage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The outcome of a job."""

    failure: Failure | None
    is_stopped: bool
    part_counts: Mapping[str, PartCounts]
    seconds: float
    initial_counts: Mapping[str, PartCounts] = field(default_factory=dict)
    """The row counts of its parts when this run began."""
    checkpoint: int | None = None
    """The checkpoint to resume from, if the job has not ended."""
    is_drained: bool = False
    """Whether the job was drained: all that was read has been emitted."""


@dataclass(frozen=True, slots=True)
class JobStatistics:
    """The statistics of a job at one time; none before its first attempt."""

    parts: Mapping[str, PartCounts] = field(default_factory=dict)
    """The row counts of every part, in this run and in those that it resumed from."""
    subtasks: tuple[SubtaskStatistics, ...] = ()
    """The statistics of each subtask since it began."""
    workers: Mapping[SubtaskId, WorkerIdentity] = field(default_factory=dict)
    """The worker of each subtask; none for those of a lost worker."""


@dataclass(slots=True)
class Job:
    """One run of a plan.

    Without a CheckpointStorage it cannot resume from a checkpoint: its first failure ends it.
    """

    spec: JobSpec
    """The specification; a rescale replaces its plan and its number of workers."""
    initial_checkpoint: RestoredCheckpoint | None = None
    """The checkpoint to start from."""
    random: random.Random = field(default_factory=random.Random)
    time_share_sampler: TimeShareSampler[tuple[int, SubtaskId]] = field(
        default_factory=TimeShareSampler
    )
    """The samples of the time of its subtasks, by attempt and subtask."""
    taps: JobTaps = field(default_factory=JobTaps)
    _attempt: Attempt | None = None
    _deployed_attempt: Attempt | None = None
    """The last attempt whose subtasks were deployed."""
    _initial_counts: Mapping[str, PartCounts] | None = None
    _is_deployed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the subtasks of an attempt run, and when the job is over."""
    _stop_requested: asyncio.Event = field(default_factory=asyncio.Event)
    _lifecycle: JobLifecycle = field(default_factory=JobLifecycle)
    _pending_rescale: PendingRescale | None = None
    """The rescale that was requested."""

    @property
    def plan(self) -> nodes.Plan:
        """The plan at the current parallelism."""
        return self.spec.plan

    @property
    def storage(self) -> CheckpointStorage | None:
        """The checkpoint storage, if the job can resume from checkpoints."""
        return self.spec.storage

    async def run(self) -> JobOutcome:
        """Run to the end. Raises errors that come before anything is read."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        lifecycle = self._lifecycle
        try:
            await self._run_attempts()
        finally:
            lifecycle.end()
            self._is_deployed.set()
            self._reject_rescale(RequestRejected("the job has ended"))
        return JobOutcome(
            lifecycle.failure,
            lifecycle.is_stopped,
            self.collect_counts(),
            loop.time() - start,
            self._initial_counts or {},
            await self._read_last_number(),
            lifecycle.attempt_end == "drained",
        )

    def stop(self, *, drain: bool = False) -> None:
        """Request the end.

        With checkpoints the job ends after one to resume from, without when all that was read is
        finished. `drain`: finish all that was read before that, as at the end of event time.
        """
        self._lifecycle.request_stop(drain=drain)
        self._stop_requested.set()
        if self._attempt is not None:
            self._attempt.stop(drains=self._is_draining)

    @property
    def _is_draining(self) -> bool:
        return self._lifecycle.stop_request == "drain"

    @property
    def status(self) -> JobStatus:
        """The status of the job."""
        return self._lifecycle.status

    @property
    def failure(self) -> Failure | None:
        """The failure after which the job waits to restart, or is over."""
        return self._lifecycle.failure

    def describe_stop(self) -> str:
        """Describe what a job that is stopping waits for."""
        awaited = self._attempt.describe_awaited() if self._attempt else "its start"
        return f"waiting for {awaited}"

    async def take_checkpoint(self) -> int:
        """Take a checkpoint of all input so far. Return its number.

        It is complete then, and all its output is committed. It stays until `release_checkpoint`,
        for which the end of the job waits. If the job restarts meanwhile, the checkpoint is taken
        once more. Raises RequestRejected.
        """
        try:
            return await self._require_attempt().take_checkpoint()
        except InterruptedRequest:
            await self._is_deployed.wait()
            if self._lifecycle.is_over:
                raise
        return await self._require_attempt().take_checkpoint()

    def release_checkpoint(self, number: int) -> None:
        """Unpin a checkpoint that is no longer read."""
        assert self.storage is not None
        self.storage.pins.release(number)

    async def rescale(self, plan: nodes.Plan, worker_count: int | None = None) -> RescaleResult:
        """Continue with the same plan at another parallelism, or with another number of workers.

        The job stands still from a checkpoint to the restore from it; another checkpoint before
        that leaves little to write meanwhile, and new workers are started before. If the caller is
        cancelled, a rescale that has begun is completed. Raises RequestRejected.
        """
        if self._pending_rescale is not None:
            raise RequestRejected(
                "the job is being rescaled already", "try again when that is done"
            )
        count = self.spec.worker_count if worker_count is None else worker_count
        change = self._pending_rescale = PendingRescale(
            plan, count, asyncio.get_running_loop().create_future()
        )
        try:
            self._require_attempt()
            await self._prepare_workers(change)
            self.release_checkpoint(await self._require_attempt().take_checkpoint())
            self._require_attempt().stop_for_rescale(partial(self._record_pause, change))
        except BaseException:
            try:
                await self.spec.workers.prepare(1)  # ends what was started for nothing
            finally:
                if self._pending_rescale is change:
                    self._pending_rescale = None
            raise
        return await asyncio.shield(change.result)

    async def _prepare_workers(self, change: PendingRescale) -> None:
        """Prepare the workers of a rescale. A failure or the end of the job rejects it at once."""
        if change.worker_count <= 1:
            return
        preparing = asyncio.create_task(self.spec.workers.prepare(change.worker_count))
        try:
            await asyncio.wait((preparing, change.result), return_when=asyncio.FIRST_COMPLETED)
            if change.result.done():
                change.result.result()
            await preparing
        except ConnectorError as error:
            raise RequestRejected(error.message, error.hint) from error
        finally:
            preparing.cancel()
            await wait_until_done(preparing)

    def _record_pause(self, change: PendingRescale) -> None:
        change.record_pause()
        self._lifecycle.pause_sources()

    def _require_attempt(self) -> Attempt:
        """Return the attempt that can serve a request. Raises RequestRejected."""
        if self.storage is None:
            raise RequestRejected(
                "this run takes no checkpoints", "leave out --limit, or read files"
            )
        status, attempt = self.status, self._attempt
        if status == "restarting" and self.failure is not None:
            why = f"the job has failed, and waits to restart: {self.failure.message}"
            raise RequestRejected(why, "try again when it runs")
        if attempt is None or status not in ("starting", "restoring", "running"):
            raise RequestRejected(
                f"the job is {status}", "" if status == "over" else "try again later"
            )
        return attempt

    def collect_counts(self) -> dict[str, PartCounts]:
        """Return the row counts of every part, in this run and in those that it resumed from."""
        shown = self._deployed_attempt or self._attempt
        return shown.collect_counts() if shown else {}

    @property
    def attempt_number(self) -> int:
        """The number of the current attempt, from 1; 0 before the first."""
        return self._attempt.number if self._attempt else 0

    def collect_statistics(self) -> JobStatistics:
        """Return the statistics of every part and of every subtask at one time."""
        shown = self._deployed_attempt or self._attempt
        if shown is None:
            return JobStatistics()
        reports = shown.collect_reports()
        subtasks = sorted(
            (each for report in reports for each in report.subtasks), key=lambda each: each.id
        )
        counts, workers = shown.sum_counts(reports), map_workers(reports)
        return JobStatistics(counts, tuple(subtasks), workers)

    def collect_reports(self) -> tuple[WorkerReport, ...]:
        """Return the newest reports of the workers, without splits."""
        shown = self._deployed_attempt or self._attempt
        return shown.collect_reports(with_splits=False) if shown else ()

    def list_workers(self) -> dict[WorkerIdentity, tuple[PlacedTask, ...]]:
        """Return the workers that have reported, with the tasks and subtasks that they run."""
        shown = self._deployed_attempt or self._attempt
        if shown is None:
            return {}
        workers = map_workers(self.collect_reports())
        return dict(sorted(group_by_worker(shown.spec.plan, workers).items()))

    @property
    def initial_counts(self) -> Mapping[str, PartCounts]:
        """The row counts of every part when this run began; empty if nothing was restored."""
        return self._initial_counts or {}

    async def _run_attempts(self) -> None:
        """Run attempts until one ends or no restart is left."""
        number = 0
        while not self._lifecycle.is_over:
            number += 1
            failed = await self._try_attempt(number)
            if failed is not None:
                await self._handle_failure(failed)
            elif self._lifecycle.state == "switching":
                self._switch_spec()

    async def _handle_failure(self, failed: Failure) -> None:
        """Go back to the old plan, or wait to restart if that is allowed."""
        self._is_deployed.clear()
        step = self._lifecycle.fail_attempt(failed)
        if step == "revert":
            self._revert_spec()
        self._reject_rescale(RequestRejected(f"the job has failed: {failed.message}", failed.hint))
        if step != "restart":
            return
        delay_s = self._choose_delay(failed)
        if delay_s is None:
            self._lifecycle.give_up(failed)
            return
        self._lifecycle.wait_to_restart(failed)
        await self._wait_for_stop(delay_s)
        self._lifecycle.resume()

    def _switch_spec(self) -> None:
        """Switch to the plan and the workers of the rescale, for the next attempt."""
        change = self._pending_rescale
        assert change is not None
        change.old_spec = self.spec
        self.spec = replace(self.spec, plan=change.plan, worker_count=change.worker_count)

    def _revert_spec(self) -> None:
        """Switch back to the plan and the workers before the rescale."""
        change = self._pending_rescale
        assert change is not None
        assert change.old_spec is not None
        self.spec = change.old_spec

    def _reject_rescale(self, refused: RequestRejected) -> None:
        change, self._pending_rescale = self._pending_rescale, None
        if change is not None and not change.result.done():
            change.result.set_exception(refused)
            # The caller may have been cancelled: mark the exception as retrieved.
            change.result.exception()

    async def _try_attempt(self, number: int) -> Failure | None:
        """Run one attempt. Return its failure."""
        try:
            restored = (
                self.initial_checkpoint if number == 1 else await self._read_newest_checkpoint()
            )
            return await self._run_attempt(restored, number)
        except (ConnectorError, SnapshotError) as error:
            is_switching = self._lifecycle.state == "switching"
            if not is_switching and (number == 1 or error.exit_status != 1):
                raise
            return build_failure(error, "restart")

    async def _run_attempt(
        self, restored: RestoredCheckpoint | None, number: int
    ) -> Failure | None:
        """Run one attempt from a checkpoint. Return its failure."""
        self._lifecycle.start_attempt(is_restored=restored is not None)
        attempt = self._attempt = Attempt(
            self.spec, restored, number, self._decide_delay, self.taps
        )
        if self._stop_requested.is_set():
            attempt.stop(drains=self._is_draining)
        coordinator = await attempt.run(self._on_deployed)
        if coordinator.failure is not None:
            return coordinator.failure
        # With checkpoints, a stop request may come too late: nothing is left to resume.
        if coordinator.is_complete and (self.storage is not None or not coordinator.is_stopped):
            await self._finish()
            self._lifecycle.end_attempt("complete")
        else:
            self._lifecycle.end_attempt("drained" if coordinator.is_draining else "stopped")
        return None

    async def _finish(self) -> None:
        """Record that all input was read, once no client reads a checkpoint any more."""
        if self.storage is not None:
            await self.storage.pins.wait_until_unpinned()
            await self._run_blocking(self.storage.on_finished)

    def _on_deployed(self) -> None:
        self._deployed_attempt = attempt = self._attempt
        self._is_deployed.set()
        change = self._pending_rescale
        if self._lifecycle.deploy() and change is not None and attempt is not None:
            restored = attempt.restored_checkpoint
            change.complete(restored.number if restored else 0)
            self._pending_rescale = None
        if self._initial_counts is None:
            is_restored = attempt is not None and attempt.restored_checkpoint is not None
            self._initial_counts = self.collect_counts() if is_restored else {}

    def _choose_delay(self, failed: Failure) -> float | None:
        """Return the delay before the next attempt; None: there is none."""
        attempt = self._attempt
        restored = attempt.restored_checkpoint if attempt else None
        delay_s = self._decide_delay(failed, restored.number if restored else 0)
        if delay_s is not None and self.storage is not None:
            self.storage.report_event(JobRestarting(failed, delay_s))
        return delay_s

    def _decide_delay(self, failed: Failure, checkpoint: int) -> float | None:
        """Return the delay before the restart of what has run from a checkpoint, if it restarts."""
        if self.storage is None:
            return None
        now = asyncio.get_running_loop().time()
        restarts = self.storage.restarts
        return restarts.decide_delay_s(failed, now, self.random.random(), checkpoint)

    async def _wait_for_stop(self, delay_s: float) -> None:
        """Wait for the delay, or until a stop is requested."""
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._stop_requested.wait()

    async def _read_last_number(self) -> int | None:
        """Return the checkpoint to resume from, if there is one and the store can be read."""
        if self.storage is None or self._lifecycle.attempt_end == "complete":
            return None
        with suppress(SnapshotError):
            return await self._run_blocking(self.storage.find_last_number) or None
        return None

    async def _run_blocking(self, work: Callable[[], T]) -> T:
        return await self.spec.run_context.kernel_executor.run_blocking(work)

    async def _read_newest_checkpoint(self) -> RestoredCheckpoint | None:
        if self.storage is None:
            return None
        return await self._run_blocking(partial(self.storage.read_newest, self.plan))
