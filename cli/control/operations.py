"""Operations that clients request of a job: a pure state machine that decides when each may start.

    requested    while idle    during a        during a      during a      after the
                               savepoint       rescale       stop          job's end
    savepoint    starts        waits (1)       waits         rejected      rejected
    rescale      starts        waits           rejected      rejected      rejected
    stop         starts        starts (2)      starts (2)    joins it (3)  rejected

(1) In a queue. A second request for the location of a waiting savepoint is the same operation: its
    savepoint will include all rows read before the second request. That does not hold for a
    savepoint that is being taken.
(2) A stop does not wait. A running export is finished first, since its checkpoint is pinned.
    Waiting savepoints are made of the job's last checkpoint after the end, as is the stop's own;
    unless the job is drained, since its state then differs. A waiting rescale fails.
(3) The first stop remains the only one. Its savepoint may still be requested by a second stop until
    the job has ended; draining may not, if the first stop did not request it. Another location for
    the savepoint than the first stop's is rejected.

A stop by a signal is no operation: the first stop of a client joins it.

    waiting --next--> running --done--> done
       | <----again---' '-----fail---> failed
       '-------------------fail------> failed

A savepoint for which no checkpoint can be taken any more, because the job is ending, waits again
for the last checkpoint. `done` and `failed` are final. A client that disconnects changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from headrace.cli.control.http_messages import RequestError
from headrace.core.types.lazy_dataclass import dataclass

Kind: TypeAlias = Literal["savepoint", "stop", "rescale"]
State: TypeAlias = Literal["waiting", "running", "done", "failed"]

MAX_FINISHED = 100
"""The number of finished operations that are retained."""

MAX_WAITING = 20
"""The most operations that may wait."""


@dataclass(frozen=True, slots=True)
class OperationError:
    """Why an operation failed: `refused` because of the job's state, or `failed`."""

    code: str
    message: str
    hint: str = ""


@dataclass(slots=True)
class Operation:
    """A requested operation."""

    id: str
    kind: Kind
    requested_at: str
    location: str | None = None
    """The location of a savepoint; None: among the savepoints of the job."""
    makes_savepoint: bool = False
    """Whether a savepoint is made; optional only for a stop."""
    drain: bool = False
    parallelism: Mapping[str, int] = field(default_factory=dict)
    """The new parallelism of a rescale, by part, for parts that change."""
    state: State = "waiting"
    progress_text: str = ""
    """The progress in words."""
    progress_numbers: Mapping[str, float] = field(default_factory=dict)
    result: Mapping[str, object] = field(default_factory=dict)
    error: OperationError | None = None
    is_received: bool = False
    """Whether a client has received its end."""

    @property
    def is_over(self) -> bool:
        """Whether the operation is done or failed."""
        return self.state in ("done", "failed")


@dataclass(slots=True)
class Operations:
    """All operations of one run by id, in the order of the requests."""

    operations_by_id: dict[str, Operation] = field(default_factory=dict)
    has_job_ended: bool = False
    """Whether the job has ended."""
    _last_id: int = 0

    def request_savepoint(self, status: str, time: str, to: str | None = None) -> Operation:
        """Request a savepoint. Raises RequestError."""
        self._check_not_ending(status, "headrace stop JOB --savepoint joins the stop in progress")
        for other in self._iterate_waiting("savepoint"):
            if other.location == to:
                return other
        self._check_location_free(to)
        if len(list(self._iterate_waiting())) >= MAX_WAITING:
            raise RequestError(
                409, "busy", f"{MAX_WAITING} operations are waiting already", "try again later"
            )
        return self._add(Operation("", "savepoint", time, to, makes_savepoint=True))

    def request_rescale(self, status: str, time: str, parallelism: Mapping[str, int]) -> Operation:
        """Request another parallelism. Raises RequestError."""
        self._check_not_ending(status, "the next run may have another parallelism")
        for other in self._iterate_open("rescale"):
            hint = f"wait for operation {other.id}, then try again"
            raise RequestError(409, "rescaling", "the job is being rescaled", hint)
        return self._add(Operation("", "rescale", time, parallelism=parallelism))

    def request_stop(
        self, status: str, time: str, *, saves: bool, to: str | None = None, drain: bool
    ) -> Operation:
        """Request a stop. Raises RequestError."""
        first = next(self._iterate_open("stop"), None)
        if first is None and (self.has_job_ended or status == "over"):
            raise job_ended_error()
        if saves and self.has_job_ended and first and not first.makes_savepoint:
            raise RequestError(
                409, "too_late", "the job has stopped without a savepoint: it is too late"
            )
        if drain and (not first.drain if first else status == "stopping"):
            raise RequestError(
                409, "too_late", "the job is stopping without draining: it is too late"
            )
        if saves and first and first.makes_savepoint and to not in (None, first.location):
            there = first.location or "the job's own savepoints"
            message = f"the job is stopping with a savepoint in {there} already"
            raise RequestError(409, "stopping", message, "leave out the location")
        if saves and not (first and first.location == to):
            self._check_location_free(to)
        if first is None:
            first = self._add(Operation("", "stop", time, drain=drain, state="running"))
        if saves and not first.makes_savepoint:
            first.makes_savepoint, first.location = True, to
        return first

    def start_next(self, status: str) -> Operation | None:
        """Start the next operation, if one may start."""
        running = any(self._iterate_running("savepoint")) or any(self._iterate_running("rescale"))
        if running or self._is_ending(status):
            return None
        for operation in self._iterate_waiting():
            operation.state, operation.progress_text = "running", ""
            return operation
        return None

    def requeue(self, operation: Operation) -> None:
        """Put a savepoint back into the queue, to wait for the ending job's last checkpoint."""
        operation.state, operation.progress_text = (
            "waiting",
            "waiting for the job's last checkpoint",
        )

    def end_job(self, *, drained: bool) -> list[Operation]:
        """Mark the job as ended; return the savepoints of its last checkpoint, the stop's last."""
        self.has_job_ended = True
        saving = [] if drained else list(self._iterate_waiting("savepoint"))
        return [*saving, *(stop for stop in self._iterate_open("stop") if stop.makes_savepoint)]

    def set_progress(self, operation: Operation, words: str, **numbers: float) -> None:
        """Set the progress of an operation."""
        operation.progress_text, operation.progress_numbers = words, numbers

    def finish(self, operation: Operation, **result: object) -> None:
        """Finish an operation."""
        self._end(operation, "done", result, None)

    def fail(self, operation: Operation, error: OperationError) -> None:
        """Fail an operation."""
        self._end(operation, "failed", {}, error)

    def list_open_operations(self) -> list[Operation]:
        """List the operations that are not over."""
        return list(self._iterate_open())

    def _end(
        self,
        operation: Operation,
        state: State,
        result: Mapping[str, object],
        error: OperationError | None,
    ) -> None:
        assert not operation.is_over, operation
        operation.state, operation.result, operation.error = state, result, error
        operation.progress_text, operation.progress_numbers = "", {}
        over = [each.id for each in self.operations_by_id.values() if each.is_over]
        for id in over[:-MAX_FINISHED]:
            del self.operations_by_id[id]

    def _add(self, operation: Operation) -> Operation:
        self._last_id += 1
        operation.id = str(self._last_id)
        self.operations_by_id[operation.id] = operation
        return operation

    def _check_not_ending(self, status: str, hint: str) -> None:
        """Check that the job is not ending. Raises RequestError."""
        stops = any(self._iterate_open("stop"))
        if not stops and (self.has_job_ended or status == "over"):
            raise job_ended_error()
        if stops or self._is_ending(status):
            raise RequestError(409, "stopping", "the job is stopping", hint)

    def _is_ending(self, status: str) -> bool:
        """Whether the job takes only its last checkpoint."""
        ending = status in ("stopping", "draining", "over")
        return ending or self.has_job_ended or any(self._iterate_open("stop"))

    def _check_location_free(self, to: str | None) -> None:
        """Check that no other savepoint uses the location. Raises RequestError."""
        for other in self._iterate_open():
            if to is not None and other.makes_savepoint and other.location == to:
                message = f"operation {other.id} is making a savepoint in {to}"
                raise RequestError(409, "taken", message, "name another folder")

    def _iterate_open(self, kind: Kind | None = None) -> Iterator[Operation]:
        return (each for each in self._iterate_kind(kind) if not each.is_over)

    def _iterate_running(self, kind: Kind) -> Iterator[Operation]:
        return (each for each in self._iterate_kind(kind) if each.state == "running")

    def _iterate_waiting(self, kind: Kind | None = None) -> Iterator[Operation]:
        return (each for each in self._iterate_kind(kind) if each.state == "waiting")

    def _iterate_kind(self, kind: Kind | None) -> Iterator[Operation]:
        return (each for each in self.operations_by_id.values() if kind in (None, each.kind))


def job_ended_error() -> RequestError:
    """Return the error of requests after the job's end."""
    return RequestError(409, "over", "the job has ended", "its process is about to end as well")
