"""Requests that are asked again until somebody answers: a broker that is away is waited for.

Whoever waits is told of it in a line, and can be cancelled at any time.
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
"""How often somebody looks at a request that nobody answers."""


@dataclass(slots=True)
class Pauses:
    """How long to wait before the next try: longer each time, and short again after a success."""

    next_s: float = FIRST_PAUSE_S

    def reset(self) -> None:
        """It went well."""
        self.next_s = FIRST_PAUSE_S

    async def pause(self) -> None:
        """Wait, and longer the next time."""
        pause_s, self.next_s = self.next_s, min(2 * self.next_s, LONGEST_PAUSE_S)
        await asyncio.sleep(pause_s)


async def _nothing(_: KafkaError) -> None:
    """What is done between two tries where nothing is to be done."""


@dataclass(frozen=True, slots=True)
class Patience:
    """What all requests of a source or sink share: `tell` shows the user that nobody answers."""

    outage: Outage
    tell: Callable[[str], None]

    def answered(self) -> None:
        """A broker answered."""
        self._say(self.outage.answered(_now()))

    def failed(self, since_s: float) -> None:
        """A broker that was asked then did not answer."""
        self._say(self.outage.failed(_now(), since_s))

    def _say(self, line: str) -> None:
        if line:
            self.tell(line)

    async def watched(self, asking: Awaitable[T]) -> T:
        """An answer, or the KafkaError there was instead; that none comes is told meanwhile."""
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
        """The answer to one request; as `persist`."""
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
        """What comes of watched requests; `otherwise` is done before they are asked again.

        Raises KafkaError that does not pass, or has not passed within that time.
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
