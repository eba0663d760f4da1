"""Who waits for a checkpoint of a running attempt, and what becomes of each.

A checkpoint that somebody asked for is pinned before it can be collected, and stays so until who
got its number releases it. Who has gone away meanwhile pins nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from headrace.core.asked import Refused
from headrace.core.pins import Pins


@dataclass(slots=True)
class Asking:
    """Those who asked."""

    pins: Pins
    _new: list[asyncio.Future[int]] = field(default_factory=list)
    _waiting: list[tuple[int, asyncio.Future[int]]] = field(default_factory=list)
    _over: Refused | None = None
    """Why there are no more."""

    def asks(self) -> asyncio.Future[int]:
        """Somebody asks: the number of a checkpoint, to be awaited."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._new.append(future)
        if self._over is not None:
            self.refused(future, self._over)
        return future

    def begun(self, future: asyncio.Future[int], number: int) -> None:
        """It will be of this number."""
        self._new.remove(future)
        self._waiting.append((number, future))
        self.pins.pin(number)

    def gone(self, future: asyncio.Future[int]) -> None:
        """Whoever asked does not wait any more, and may have been answered just before that."""
        if future.done() and not future.cancelled() and future.exception() is None:
            self.pins.release(future.result())

    def refused(self, future: asyncio.Future[int], refused: Refused) -> None:
        """There will be none for this one."""
        self._new.remove(future)
        _refuse(future, refused)

    def there(self, number: int) -> None:
        """This one is there, and all output that it names is visible."""
        for each, future in self._taken(number):
            if future.done():
                self.pins.release(each)
            else:
                future.set_result(each)

    def failed(self, number: int, why: str) -> None:
        """This one will never be there."""
        hint = "the job goes on without it: ask again"
        for each, future in self._taken(number):
            self._give_up(each, future, Refused(f"checkpoint {each} failed: {why}", hint))

    def behind(self, number: int, refused: Refused) -> None:
        """None is taken behind this one."""
        late = [each for each in self._waiting if each[0] > number]
        self._waiting = [each for each in self._waiting if each[0] <= number]
        for each, future in late:
            self._give_up(each, future, refused)

    def over(self, refused: Refused) -> None:
        """No more will be taken."""
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
