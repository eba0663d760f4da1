"""Control of a job: serves its socket, and carries out clients' requests one after the other.

`Operations` decides which operation may start; this module does the work. `watch` runs from before
the job's start until after its end. `over` runs at the end: it makes savepoints of the last
checkpoint while the process still holds the job's home.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import field
from functools import partial

from headrace.cli.control import job_socket
from headrace.cli.control.event_streams import StreamEvent, build_error_event
from headrace.cli.control.http_server import HttpRoute, run_server
from headrace.cli.control.job_summary import JobSummary
from headrace.cli.control.operations import Operation, OperationError, Operations
from headrace.cli.control.rescale_plans import RescalePlans, find_changed_parallelism
from headrace.cli.control.savepoint_export import SavepointAbandoned, SavepointProcess
from headrace.cli.control.shared_feeds import SharedFeeds
from headrace.cli.job_diagnosis import SAMPLE_INTERVAL_S
from headrace.core.api.snapshots import RefusedSnapshot, SnapshotError, format_now
from headrace.core.coordination.events import (
    JobEvent,
    JobRescaled,
    RequestFailed,
    SavepointTaken,
    StopRequested,
)
from headrace.core.job.job import Job, JobOutcome
from headrace.core.job.requests import InterruptedRequest, RequestRejected
from headrace.core.plan.nodes import Plan
from headrace.core.types.lazy_dataclass import dataclass

POLL_GRACE_S = 1.0
"""The time that the end waits for polling clients to fetch the result."""

ENDED_ERROR = OperationError("refused", "the job has ended")
DRAINED_ERROR = OperationError(
    "refused", "the job was drained: its last checkpoint has the state after that"
)
FINISHED_ERROR = OperationError("refused", "the job has finished: there is nothing to resume from")
INTERRUPTED_ERROR = OperationError("failed", "the process was stopped at once")


@dataclass(slots=True)
class JobControl:
    """The control of one job of this process."""

    folder: str
    """The job's home, which is locked."""
    summary: JobSummary
    rescale_plans: RescalePlans
    savepoint_writer: SavepointProcess
    report_event: Callable[[JobEvent], None] = lambda event: None
    report_bug: Callable[[BaseException], None] = lambda error: None
    """Called with an exception that is a bug in headrace."""
    end_at_once: Callable[[], None] = lambda: None
    """Ends the job without a checkpoint, and its process."""
    make_routes: Callable[[JobControl], Sequence[HttpRoute]] = lambda control: ()
    """The routes to serve."""
    operations: Operations = field(default_factory=Operations)
    feeds: SharedFeeds = field(init=False)
    """The streams of events that clients read."""
    _job: Job | None = None
    _running_tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _change_event: asyncio.Event = field(default_factory=asyncio.Event)
    _pending_plans: dict[str, tuple[RescalePlans, Plan]] = field(default_factory=dict)
    """The plans of rescales, by operation."""
    _requested_at: dict[str, float] = field(default_factory=dict)
    """The time of the last request for each operation, by id."""

    def __post_init__(self) -> None:
        self.feeds = SharedFeeds(self.report_bug)

    @property
    def job(self) -> Job:
        """The job, which is known once `watch` has started."""
        assert self._job is not None
        return self._job

    async def watch(self, job: Job) -> None:
        """Serve until cancelled. A job without a socket runs all the same."""
        self._job = job
        self.savepoint_writer.kernel_executor = (
            job.spec.run_context.snapshot_executor or job.spec.run_context.kernel_executor
        )
        try:
            with job_socket.open_listener(self.folder) as listener:
                async with run_server(self.make_routes(self), listener, self.report_bug):
                    await self._sample_periodically()
        except OSError as error:
            why = error.strerror or str(error)
            self.report_event(
                RequestFailed("control", f"{job_socket.socket_path(self.folder)}: {why}")
            )
        except Exception as error:
            self.report_bug(error)

    async def _sample_periodically(self) -> None:
        try:
            while True:
                self.summary.record_sample(self.job)
                await asyncio.sleep(SAMPLE_INTERVAL_S)
        finally:
            self.feeds.close()
            await self._abandon(INTERRUPTED_ERROR)

    # Requests of clients

    def savepoint(self, to: str | None) -> Operation:
        """Request a savepoint. Raises RequestError."""
        return self._start_operations(
            self.operations.request_savepoint(self.job.status, format_now(), to)
        )

    async def rescale(
        self, parallelism: int | None, parts: Mapping[str, int], workers: int | None = None
    ) -> Operation:
        """Request another parallelism, or another number of workers. Raises RequestError."""
        while True:
            before = self.rescale_plans
            make = partial(before.replan, parallelism, parts, workers)
            plans, plan = await self.savepoint_writer.kernel_executor.run_blocking(make)
            if before is self.rescale_plans:
                break
        changed = find_changed_parallelism(self.job.plan, plan)
        operation = self.operations.request_rescale(self.job.status, format_now(), changed)
        self._pending_plans[operation.id] = plans, plan
        return self._start_operations(operation)

    def stop(self, *, saves: bool, to: str | None, drain: bool) -> Operation:
        """Request a stop. Raises RequestError."""
        before = self.operations.list_open_operations()
        status = self.job.status
        operation = self.operations.request_stop(
            status, format_now(), saves=saves, to=to, drain=drain
        )
        if operation not in before:
            self.report_event(StopRequested(drain))
            self.job.stop(drain=drain)
        return self._start_operations(operation)

    def stop_now(self) -> Operation:
        """Request the end without a checkpoint, also of a job that is stopping.

        The operation fails, as all open ones. Raises RequestError.
        """
        asyncio.get_running_loop().call_soon(self.end_at_once)
        self.report_event(StopRequested(is_drain=False, is_immediate=True))
        return self._start_operations(
            self.operations.request_stop(self.job.status, format_now(), saves=False, drain=False)
        )

    def update_progress(self, operation: Operation) -> None:
        """Update the progress of a stop that waits for the job."""
        if operation.kind == "stop" and not self.operations.has_job_ended:
            self._set_progress(operation, self.job.describe_stop())

    async def wait_until_over(self, operation: Operation, wait_s: float) -> None:
        """Wait until the operation is over, at most this long."""
        try:
            async with asyncio.timeout(wait_s):
                while not operation.is_over:
                    await self._change_event.wait()
        except TimeoutError:
            pass
        finally:
            self._requested_at[operation.id] = asyncio.get_running_loop().time()

    def mark_received(self, operation: Operation) -> None:
        """Record that a client has received the end of the operation."""
        operation.is_received = True
        self._notify_waiters()

    # Execution

    def _start_operations(self, requested: Operation) -> Operation:
        """Start all operations that may start; return the requested one."""
        self._requested_at[requested.id] = asyncio.get_running_loop().time()
        while operation := self.operations.start_next(self.job.status):
            task = asyncio.create_task(self._carry_out(operation))
            self._running_tasks.add(task)
            task.add_done_callback(self._running_tasks.discard)
        self._notify_waiters()
        return requested

    def _notify_waiters(self) -> None:
        """Wake all waiting clients."""
        self._change_event.set()
        self._change_event = asyncio.Event()

    async def _carry_out(self, operation: Operation) -> None:
        """Carry out an operation other than a stop."""
        work = self._take_savepoint if operation.kind == "savepoint" else self._rescale_job
        await self._fail_on_error(operation, work(operation))
        self._start_operations(operation)

    async def _fail_on_error(
        self, operation: Operation, work: Coroutine[object, object, None]
    ) -> None:
        """Do the work; an exception fails the operation."""
        try:
            await work
        except InterruptedRequest as error:
            self._fail(operation, OperationError("failed", error.message, error.hint))
        except (RequestRejected, RefusedSnapshot) as error:
            self._fail(operation, OperationError("refused", error.message, error.hint))
        except SnapshotError as error:
            self._fail(operation, OperationError("failed", error.message, error.hint))
        except (asyncio.CancelledError, SavepointAbandoned) as error:
            self._fail(operation, INTERRUPTED_ERROR)
            if isinstance(error, asyncio.CancelledError):
                raise
        except Exception as error:
            self.report_bug(error)
            message = f"{type(error).__name__}: {error}"
            self._fail(
                operation, OperationError("defect", message, "a bug in headrace: please report it")
            )

    async def _take_savepoint(self, operation: Operation) -> None:
        self._set_progress(operation, "taking a checkpoint")
        try:
            number = await self.job.take_checkpoint()
        except RequestRejected:
            if self.job.status not in ("stopping", "draining", "over"):
                raise
            self.operations.requeue(operation)
            return
        try:
            self._finish(operation, **await self._write_savepoint(operation, number))
        finally:
            self.job.release_checkpoint(number)

    async def _write_savepoint(self, operation: Operation, number: int) -> dict[str, object]:
        """Make a savepoint of a checkpoint; return its result."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        self._set_progress(operation, f"writing a savepoint from checkpoint {number}")
        path = await self.savepoint_writer.save(
            number, operation.location, partial(self._set_progress, operation)
        )
        self.report_event(SavepointTaken(number, path))
        return {"path": path, "checkpoint": number, "seconds": round(loop.time() - begun, 3)}

    async def _rescale_job(self, operation: Operation) -> None:
        plans, plan = self._pending_plans.pop(operation.id)
        stood_still_s, checkpoint = 0.0, None
        workers, had = plans.count_workers(plan), self.job.spec.worker_count
        if workers != had or find_changed_parallelism(self.job.plan, plan):
            self._set_progress(operation, "taking a checkpoint, then restarting from it")
            done = await self.job.rescale(plan, workers)
            stood_still_s, checkpoint = done.downtime_s, done.checkpoint
            changed = None if workers == had else workers
            self.report_event(JobRescaled(operation.parallelism, stood_still_s, changed))
        self.rescale_plans = plans
        self._finish(
            operation,
            stood_still_s=round(stood_still_s, 3),
            checkpoint=checkpoint,
            parallelism=dict(operation.parallelism),
            workers=workers,
        )

    def _set_progress(self, operation: Operation, words: str, **numbers: float) -> None:
        if not operation.is_over:
            self.operations.set_progress(operation, words, **numbers)

    def _finish(self, operation: Operation, **result: object) -> None:
        self.operations.finish(operation, **result)
        self._notify_waiters()

    def _fail(self, operation: Operation, error: OperationError) -> None:
        self.operations.fail(operation, error)
        self.report_event(RequestFailed(operation.kind, error.message))
        self._notify_waiters()

    # End of the job

    async def finish_operations(self, _: Job, outcome: JobOutcome) -> None:
        """Finish the open operations of a job that has ended, while its home is still locked."""
        if self._running_tasks:
            # Operations that waited for the job have failed; checkpoints being exported are pinned.
            await asyncio.wait(self._running_tasks)
        last = self.operations.end_job(drained=outcome.is_drained)
        why = DRAINED_ERROR if outcome.is_drained else ENDED_ERROR
        if failure := outcome.failure:
            why = OperationError("failed", f"the job has failed: {failure.message}", failure.hint)
        else:
            for operation in last:
                await self._fail_on_error(operation, self._save_last_checkpoint(operation, outcome))
            for operation in self.operations.list_open_operations():
                if operation.kind == "stop":
                    self._finish(operation, **_build_stop_result(operation, outcome))
        self.feeds.close(_build_end_event(self.summary.description.name, outcome))
        await self._abandon(why)
        await self._wait_for_clients()

    async def _save_last_checkpoint(self, operation: Operation, outcome: JobOutcome) -> None:
        """Make a savepoint of the job's last checkpoint."""
        if outcome.checkpoint is None:
            self._fail(operation, FINISHED_ERROR)
        else:
            message = await self._write_savepoint(operation, outcome.checkpoint)
            self._finish(operation, **(_build_stop_result(operation, outcome) | message))

    async def _abandon(self, why: OperationError) -> None:
        """Cancel and fail all open operations."""
        self.savepoint_writer.is_abandoned = True
        for task in (doing := list(self._running_tasks)):
            task.cancel()
        await asyncio.gather(*doing, return_exceptions=True)
        for operation in self.operations.list_open_operations():
            self._fail(operation, why)

    async def _wait_for_clients(self) -> None:
        """Wait for clients that have just polled: they will poll once more."""
        loop = asyncio.get_running_loop()
        since = loop.time() - POLL_GRACE_S
        known = self.operations.operations_by_id.values()
        try:
            async with asyncio.timeout(POLL_GRACE_S):
                while any(
                    not one.is_received and self._requested_at.get(one.id, since) > since
                    for one in known
                ):
                    await self._change_event.wait()
        except TimeoutError:
            pass


def _build_end_event(name: str, outcome: JobOutcome) -> StreamEvent:
    """Build the last event of a stream."""
    how = "has failed" if outcome.failure else "was stopped" if outcome.is_stopped else "has ended"
    why = f": {outcome.failure.message}" if outcome.failure else ""
    return build_error_event("ended", f"{name} {how}{why}")


def _build_stop_result(operation: Operation, outcome: JobOutcome) -> dict[str, object]:
    """Return the result of a stop."""
    if operation.kind != "stop":
        return {}
    return {"checkpoint": outcome.checkpoint, "drained": outcome.is_drained, "path": None}
