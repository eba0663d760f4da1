"""Retries of requests: until an unreachable broker is back.

The user gets a line about the outage, and the wait can be cancelled at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from aiokafka.errors import KafkaConnectionError, KafkaError

from headrace.connectors.kafka.errors import AWAY, NobodyAnswers, passes
from headrace.connectors.kafka.outage import Outage

T = TypeVar("T")

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0
WATCH_S = 1.0
"""Seconds between two checks of an unanswered request."""


@dataclass(slots=True)
class Pauses:
    """The backoff: each pause is longer than the one before, until a success resets it."""

    next_s: float = FIRST_PAUSE_S

    def reset(self) -> None:
        """Start again with the shortest pause, after a success."""
        self.next_s = FIRST_PAUSE_S

    async def pause(self) -> None:
        """Wait, and lengthen the next pause."""
        pause_s, self.next_s = self.next_s, min(2 * self.next_s, LONGEST_PAUSE_S)
        await asyncio.sleep(pause_s)


async def _nothing(_: KafkaError) -> None:
    """Do nothing between two tries."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Retries the requests of a source or sink; `tell` shows a line about an outage to the user."""

    outage: Outage
    tell: Callable[[str], None]

    def answered(self) -> None:
        """Record that a broker answered."""
        self._say(self.outage.answered(_now()))

    def failed(self, since_s: float) -> None:
        """Record that a broker did not answer a request of that time."""
        self._say(self.outage.failed(_now(), since_s))

    def _say(self, line: str) -> None:
        if line:
            self.tell(line)

    async def watched(self, asking: Awaitable[T]) -> T:
        """Await a response, reporting an outage meanwhile. Raises KafkaError."""
        since_s = _now()
        task = asyncio.ensure_future(asking)
        try:
            while not (await asyncio.wait([task], timeout=WATCH_S))[0]:
                self.failed(since_s)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        try:
            answer = task.result()
        except AWAY:
            self.failed(since_s)
            raise
        except (OSError, EOFError) as error:
            self.failed(since_s)
            raise KafkaConnectionError(str(error)) from error
        except KafkaError:
            self.answered()
            raise
        self.answered()
        return answer

    async def insist(
        self,
        ask: Callable[[], Awaitable[T]],
        *,
        otherwise: Callable[[KafkaError], Awaitable[None]] = _nothing,
        within_s: float | None = None,
    ) -> T:
        """Send one request with retries, as `persist` does."""
        return await self.persist(
            lambda: self.watched(ask()), otherwise=otherwise, within_s=within_s
        )

    async def persist(
        self,
        work: Callable[[], Awaitable[T]],
        *,
        otherwise: Callable[[KafkaError], Awaitable[None]] = _nothing,
        within_s: float | None = None,
    ) -> T:
        """Retry work made of watched requests; `otherwise` runs before each retry.

        Raises KafkaError if it is not transient, or persists beyond `within_s`.
        """
        until_s = None if within_s is None else _now() + within_s
        pauses = Pauses()
        while True:
            try:
                return await _until(until_s, work())
            except KafkaError as error:
                if not passes(error) or (until_s is not None and _now() >= until_s):
                    raise
                await pauses.pause()
                await otherwise(error)


async def _until(until_s: float | None, work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout_at(until_s):
            return await work
    except TimeoutError:
        raise NobodyAnswers from None


def _now() -> float:
    return asyncio.get_running_loop().time()
