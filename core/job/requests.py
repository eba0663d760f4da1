"""Requests to a running job, for a checkpoint or a rescale.

A requested checkpoint is pinned before it can be collected, and stays pinned until the client
releases it. A cancelled request pins nothing. A rescale leads from one plan to the same plan at
another parallelism, or with another number of workers.
"""

from __future__ import annotations

import asyncio
from dataclasses import field

from headrace.core.checkpoint.pins import CheckpointPins
from headrace.core.job.spec import JobSpec
from headrace.core.plan import nodes
from headrace.core.types.lazy_dataclass import dataclass


class RequestRejected(Exception):
    """A request that the job rejects, with a hint.

    The job continues as if there had been no request.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InterruptedRequest(RequestRejected):
    """A request that the end of its attempt has interrupted: the next attempt may serve it."""


@dataclass(frozen=True, slots=True)
class RescaleResult:
    """The result of rescaling a running job."""

    checkpoint: int
    """The checkpoint between the two attempts."""
    downtime_s: float
    """The downtime: from when sources paused until they resumed."""


@dataclass(slots=True)
class CheckpointRequests:
    """The requests for checkpoints."""

    pins: CheckpointPins
    _unassigned: list[asyncio.Future[int]] = field(default_factory=list)
    _pending: list[tuple[int, asyncio.Future[int]]] = field(default_factory=list)
    _closed_reason: RequestRejected | None = None
    """The reason to reject all requests from now on."""

    def add(self) -> asyncio.Future[int]:
        """Add a request. Return a future of the number of its checkpoint."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._unassigned.append(future)
        if self._closed_reason is not None:
            self.reject(future, self._closed_reason)
        return future

    def assign_checkpoint(self, future: asyncio.Future[int], number: int) -> None:
        """Record that the request will be served by this checkpoint."""
        self._unassigned.remove(future)
        self._pending.append((number, future))
        self.pins.pin(number)

    def cancel(self, future: asyncio.Future[int]) -> None:
        """Cancel a request; if it has just been answered, release its checkpoint."""
        if future.done() and not future.cancelled() and future.exception() is None:
            self.pins.release(future.result())

    def reject(self, future: asyncio.Future[int], refused: RequestRejected) -> None:
        """Reject one request."""
        self._unassigned.remove(future)
        _reject_future(future, refused)

    def complete(self, number: int) -> None:
        """Answer the requests served by this checkpoint, which is complete and committed."""
        for each, future in self._pop_served(number):
            if future.done():
                self.pins.release(each)
            else:
                future.set_result(each)

    def fail(self, number: int, why: str) -> None:
        """Reject the requests that this failed checkpoint would have served."""
        hint = "the job continues without it: try again"
        for each, future in self._pop_served(number):
            self._reject_pinned(
                each, future, RequestRejected(f"checkpoint {each} failed: {why}", hint)
            )

    def postpone(self, number: int) -> None:
        """Have the next checkpoint serve the requests of this one, which was given up."""
        for each, future in self._pop_served(number):
            self.pins.pin(number + 1)
            self.pins.release(each)
            self._pending.append((number + 1, future))

    def reject_after(self, number: int, refused: RequestRejected) -> None:
        """Reject all requests that wait for a checkpoint after this one."""
        late = [each for each in self._pending if each[0] > number]
        self._pending = [each for each in self._pending if each[0] <= number]
        for each, future in late:
            self._reject_pinned(each, future, refused)

    def close(self, refused: RequestRejected) -> None:
        """Reject all requests, and all later ones."""
        for number, future in self._pending:
            self._reject_pinned(number, future, refused)
        for future in self._unassigned:
            _reject_future(future, refused)
        self._unassigned, self._pending, self._closed_reason = [], [], refused

    def _reject_pinned(
        self, number: int, future: asyncio.Future[int], refused: RequestRejected
    ) -> None:
        self.pins.release(number)
        _reject_future(future, refused)

    def _pop_served(self, number: int) -> list[tuple[int, asyncio.Future[int]]]:
        served_requests = [each for each in self._pending if each[0] <= number]
        self._pending = [each for each in self._pending if each[0] > number]
        return served_requests


def _reject_future(future: asyncio.Future[int], refused: RequestRejected) -> None:
    if not future.done():
        future.set_exception(refused)


@dataclass(slots=True)
class PendingRescale:
    """A rescale in progress."""

    plan: nodes.Plan
    worker_count: int
    result: asyncio.Future[RescaleResult]
    old_spec: JobSpec | None = None
    """The specification before the rescale, once its attempt has ended."""
    paused_at_s: float | None = None
    """The time at which the sources were paused."""

    def record_pause(self) -> None:
        """Record that the sources are paused now."""
        self.paused_at_s = asyncio.get_running_loop().time()

    def complete(self, checkpoint: int) -> None:
        """Complete the rescale: the sources resume now, from that checkpoint."""
        assert self.paused_at_s is not None
        stood_s = asyncio.get_running_loop().time() - self.paused_at_s
        if not self.result.done():
            self.result.set_result(RescaleResult(checkpoint, stood_s))
