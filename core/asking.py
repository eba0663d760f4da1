"""The requests for checkpoints of a running attempt, and their results.

A requested checkpoint is pinned before it can be collected, and stays pinned until the client
releases it. A cancelled request pins nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from headrace.core.asked import Refused
from headrace.core.pins import Pins


@dataclass(slots=True)
class Asking:
    """The requests for checkpoints."""

    pins: Pins
    _new: list[asyncio.Future[int]] = field(default_factory=list)
    _waiting: list[tuple[int, asyncio.Future[int]]] = field(default_factory=list)
    _over: Refused | None = None
    """The reason to reject all requests from now on."""

    def asks(self) -> asyncio.Future[int]:
        """Add a request. Return a future of the number of its checkpoint."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._new.append(future)
        if self._over is not None:
            self.refused(future, self._over)
        return future

    def begun(self, future: asyncio.Future[int], number: int) -> None:
        """Record that the request will be served by this checkpoint."""
        self._new.remove(future)
        self._waiting.append((number, future))
        self.pins.pin(number)

    def gone(self, future: asyncio.Future[int]) -> None:
        """Cancel a request; if it has just been answered, release its checkpoint."""
        if future.done() and not future.cancelled() and future.exception() is None:
            self.pins.release(future.result())

    def refused(self, future: asyncio.Future[int], refused: Refused) -> None:
        """Reject one request."""
        self._new.remove(future)
        _refuse(future, refused)

    def there(self, number: int) -> None:
        """Answer the requests served by this checkpoint, which is complete and committed."""
        for each, future in self._taken(number):
            if future.done():
                self.pins.release(each)
            else:
                future.set_result(each)

    def failed(self, number: int, why: str) -> None:
        """Reject the requests that this failed checkpoint would have served."""
        hint = "the job continues without it: ask again"
        for each, future in self._taken(number):
            self._give_up(each, future, Refused(f"checkpoint {each} failed: {why}", hint))

    def behind(self, number: int, refused: Refused) -> None:
        """Reject all requests that wait for a checkpoint after this one."""
        late = [each for each in self._waiting if each[0] > number]
        self._waiting = [each for each in self._waiting if each[0] <= number]
        for each, future in late:
            self._give_up(each, future, refused)

    def over(self, refused: Refused) -> None:
        """Reject all requests, and all later ones."""
        for number, future in self._waiting:
            self._give_up(number, future, refused)
        for future in self._new:
            _refuse(future, refused)
        self._new, self._waiting, self._over = [], [], refused

    def _give_up(self, number: int, future: asyncio.Future[int], refused: Refused) -> None:
        self.pins.release(number)
        _refuse(future, refused)

    def _taken(self, number: int) -> list[tuple[int, asyncio.Future[int]]]:
        taken = [each for each in self._waiting if each[0] <= number]
        self._waiting = [each for each in self._waiting if each[0] > number]
        return taken


def _refuse(future: asyncio.Future[int], refused: Refused) -> None:
    if not future.done():
        future.set_exception(refused)
