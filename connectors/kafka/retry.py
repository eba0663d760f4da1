"""Retries of requests until an unreachable broker is back, and one report of each outage.

A client retries silently, so an outage would go unnoticed. Therefore each sender of requests
records their results here, and gets the line to show to the user, if there is one: when brokers
are unreachable, and once more when they are back. A wait can be cancelled at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import field
from typing import TypeVar

from aiokafka.errors import KafkaConnectionError, KafkaError

from headrace.connectors.kafka.errors import UNREACHABLE_ERRORS, NoBrokerAnswered, is_transient
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.failures import ConnectorError
from headrace.core.api.state import Document
from headrace.core.types.lazy_dataclass import dataclass

REPORT_AFTER_S = 5.0
"""Seconds of an outage before it is reported; a restarting broker is away for less."""


@dataclass(slots=True)
class Outage:
    """Tracks the results of requests, with times of any monotonic clock.

    >>> outage = Outage("bids", "localhost:9092")
    >>> (
    ...     outage.record_failure(100.0),
    ...     outage.record_failure(104.9),
    ...     outage.record_failure(105.0),
    ...     outage.record_failure(110.0),
    ... )
    ('', '', 'bids: no broker has answered for 5 s (localhost:9092), waiting', '')
    >>> outage.record_answer(117.0), outage.record_answer(118.0)
    ('bids: a broker is back after 17 s', '')
    """

    name: str
    """The source or sink."""
    brokers: str
    started_at_s: float | None = None
    """The start of the outage, as far as known."""
    is_reported: bool = False

    def record_failure(self, now_s: float, since_s: float | None = None) -> str:
        """Record a request of `since_s` without an answer; return the line to report, if any."""
        if self.started_at_s is None:
            self.started_at_s = now_s if since_s is None else since_s
        away_s = now_s - self.started_at_s
        if self.is_reported or away_s < REPORT_AFTER_S:
            return ""
        self.is_reported = True
        return f"{self.name}: no broker has answered for {away_s:.0f} s ({self.brokers}), waiting"

    def record_answer(self, now_s: float) -> str:
        """Record that a broker answered; return the line to report, if any."""
        began_s, was_reported = self.started_at_s, self.is_reported
        self.started_at_s, self.is_reported = None, False
        if began_s is None or not was_reported:
            return ""
        return f"{self.name}: a broker is back after {now_s - began_s:.0f} s"


T = TypeVar("T")


MIN_PAUSE_S = 0.05


MAX_PAUSE_S = 1.0


WATCH_INTERVAL_S = 1.0
"""Seconds between two checks of an unanswered request."""


@dataclass(slots=True)
class RequestBackoff:
    """The backoff: each pause is longer than the one before, until a success resets it."""

    next_pause_s: float = MIN_PAUSE_S

    def reset(self) -> None:
        """Start again with the shortest pause, after a success."""
        self.next_pause_s = MIN_PAUSE_S

    async def pause(self) -> None:
        """Wait, and lengthen the next pause."""
        pause_s, self.next_pause_s = self.next_pause_s, min(2 * self.next_pause_s, MAX_PAUSE_S)
        await asyncio.sleep(pause_s)


async def _do_nothing(_: KafkaError) -> None:
    """Do nothing between two tries."""


@dataclass(slots=True)
class OutageReports:
    """Shows each outage of a source or sink once, although both of its halves notice it."""

    notify_user: Callable[[str], None]
    _is_shown: bool = False

    def report(self, line: str, is_over: bool) -> None:
        """Show the line about the begin or the end of an outage, if it is the first of a half."""
        if self._is_shown == is_over:
            self._is_shown = not is_over
            self.notify_user(line)

    def report_request(self, request: Document) -> None:
        """Take the report of a worker's half."""
        self.report(str(request["outage"]), bool(request["is_over"]))


@dataclass(slots=True)
class OutageSender:
    """Sends the reports of a worker's half to the coordinator's."""

    link: CoordinatorLink
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def report(self, line: str, is_over: bool) -> None:
        """Send the line about the begin or the end of an outage. Does not wait."""
        task = asyncio.create_task(self._send({"outage": line, "is_over": is_over}))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, report: Document) -> None:
        # It is for the user's information only.
        with suppress(ConnectorError):
            await self.link.request(report)


@dataclass(frozen=True, slots=True)
class RequestRetry:
    """Retries requests of a source or sink; `report_outage` gets the lines about an outage."""

    outage: Outage
    notify_user: Callable[[str], None]
    report_outage: Callable[[str, bool], None]

    def record_answer(self) -> None:
        """Record that a broker answered."""
        if line := self.outage.record_answer(_loop_time()):
            self.report_outage(line, True)

    def record_failure(self, since_s: float) -> None:
        """Record that a broker did not answer a request of that time."""
        if line := self.outage.record_failure(_loop_time(), since_s):
            self.report_outage(line, False)

    async def watch_request(self, request: Awaitable[T]) -> T:
        """Await a response, reporting an outage meanwhile. Raises KafkaError."""
        since_s = _loop_time()
        task = asyncio.ensure_future(request)
        try:
            while not (await asyncio.wait([task], timeout=WATCH_INTERVAL_S))[0]:
                self.record_failure(since_s)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        try:
            answer = task.result()
        except UNREACHABLE_ERRORS:
            self.record_failure(since_s)
            raise
        except (OSError, EOFError) as error:
            self.record_failure(since_s)
            raise KafkaConnectionError(str(error)) from error
        except KafkaError:
            self.record_answer()
            raise
        self.record_answer()
        return answer

    async def retry_request(
        self,
        request: Callable[[], Awaitable[T]],
        *,
        otherwise: Callable[[KafkaError], Awaitable[None]] = _do_nothing,
        within_s: float | None = None,
    ) -> T:
        """Send one request with retries, as `persist` does."""
        return await self.retry_work(
            lambda: self.watch_request(request()), otherwise=otherwise, within_s=within_s
        )

    async def retry_work(
        self,
        work: Callable[[], Awaitable[T]],
        *,
        otherwise: Callable[[KafkaError], Awaitable[None]] = _do_nothing,
        within_s: float | None = None,
    ) -> T:
        """Retry work made of watched requests; `otherwise` runs before each retry.

        Raises KafkaError if it is not transient, or persists beyond `within_s`.
        """
        until_s = None if within_s is None else _loop_time() + within_s
        pauses = RequestBackoff()
        while True:
            try:
                return await _run_until(until_s, work())
            except KafkaError as error:
                if not is_transient(error) or (until_s is not None and _loop_time() >= until_s):
                    raise
                await pauses.pause()
                await otherwise(error)


async def _run_until(until_s: float | None, work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout_at(until_s):
            return await work
    except TimeoutError:
        raise NoBrokerAnswered from None


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
