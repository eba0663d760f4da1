"""Requests to brokers that may be away: how each goes is told, and what failed is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from aiokafka.errors import KafkaError

from headrace.connectors.kafka.outage import PATIENCE_S, Outage
from headrace.core.contracts import ConnectorError

if TYPE_CHECKING:
    from aiokafka.client import AIOKafkaClient

T = TypeVar("T")

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0
UNANSWERED = (KafkaError, OSError, TimeoutError, EOFError)
"""What it looks like when a broker is not there, or goes away."""


class Later(Exception):
    """Brokers answer, but not yet what was asked: a partition moves, or a topic is just made."""


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


@dataclass(frozen=True, slots=True)
class Patience:
    """What all requests of a source share: who is told when no broker answers."""

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

    async def watched(self, asked: Awaitable[T]) -> T:
        """The answer; that none comes is told also while it is awaited."""
        since_s = _now()
        task = asyncio.ensure_future(asked)
        try:
            while not (await asyncio.wait([task], timeout=PATIENCE_S))[0]:
                self.failed(since_s)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        try:
            answer = task.result()
        except UNANSWERED:
            self.failed(since_s)
            raise
        self.answered()
        return answer

    async def insisting(
        self, ask: Callable[[], Awaitable[T]], client: AIOKafkaClient, longest_s: float | None
    ) -> T:
        """Ask until there is an answer; not for longer than that. Raises ConnectorError."""
        began_s, pauses = _now(), Pauses()
        while True:
            try:
                async with asyncio.timeout(longest_s):
                    return await ask()
            except (Later, *UNANSWERED) as error:
                if longest_s is not None and _now() - began_s >= longest_s:
                    why = str(error) or "no broker answers"
                    raise ConnectorError(f"{why}, after {longest_s:.0f} s") from None
            await pauses.pause()
            if self.outage.told:
                await found_again(client)


async def found_again(client: AIOKafkaClient) -> None:
    """Ask the brokers that the user named where the others are: all may have moved."""
    with suppress(*UNANSWERED):
        await client.bootstrap()


def _now() -> float:
    return asyncio.get_running_loop().time()
