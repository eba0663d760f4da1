"""Requests that are asked again until somebody answers: a broker that is away is waited for.

Whoever waits is told of it in a line, and can be cancelled at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from aiokafka.errors import KafkaError

from headrace.connectors.kafka.outage import Outage
from headrace.connectors.kafka.sink.errors import AWAY, MOVED, passes
from headrace.connectors.kafka.sink.wire import Wire

T = TypeVar("T")

BACKOFF_S = 0.1
WATCH_S = 1.0
"""How often somebody looks at a request that nobody answers."""


@dataclass(slots=True)
class Patience:
    """Asks again what may go better the next time; `tell` shows the user a line."""

    outage: Outage
    tell: Callable[[str], None]

    async def insist(
        self,
        ask: Callable[[], Coroutine[Any, Any, T]],
        *,
        otherwise: Callable[[KafkaError], Awaitable[None]],
        within_s: float | None = None,
    ) -> T:
        """The answer; `otherwise` is done before it is asked again.

        Raises KafkaError that does not pass, or has not passed within that time.
        """
        loop = asyncio.get_running_loop()
        until_s = None if within_s is None else loop.time() + within_s
        while True:
            try:
                return await self.watched(ask(), until_s)
            except KafkaError as error:
                if not passes(error) or (until_s is not None and loop.time() >= until_s):
                    raise
                await asyncio.sleep(BACKOFF_S)
                await otherwise(error)

    async def watched(self, asking: Coroutine[Any, Any, T], until_s: float | None = None) -> T:
        """An answer, or the KafkaError there was instead; an outage is told of while it lasts."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        task = asyncio.create_task(asking)
        try:
            async with asyncio.timeout_at(until_s):
                while not (await asyncio.wait([task], timeout=WATCH_S))[0]:
                    self._say(self.outage.failed(loop.time(), began_s))
            answer = task.result()
        except KafkaError as error:
            away = isinstance(error, AWAY)
            said = self.outage.failed(loop.time(), began_s) if away else self._back()
            self._say(said)
            raise
        except TimeoutError:
            raise NobodyAnswers from None
        finally:
            task.cancel()
        self._say(self._back())
        return answer

    def _back(self) -> str:
        return self.outage.answered(asyncio.get_running_loop().time())

    def _say(self, line: str) -> None:
        if line:
            self.tell(line)


class NobodyAnswers(KafkaError):  # type: ignore[misc] # it has no types
    """Not within the time that there was."""

    def __str__(self) -> str:
        return "nobody has answered in time"


def has_moved(error: KafkaError) -> bool:
    """Whether somebody else may be the one to ask."""
    return isinstance(error, (*AWAY, *MOVED))


async def refreshed(wire: Wire, error: KafkaError) -> None:
    """Learn anew who leads and coordinates what, if that may help."""
    if has_moved(error):
        with suppress(KafkaError):
            await wire.refresh()
