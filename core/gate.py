"""The input gate of a subtask: reads its channels in turn, and aligns their elements.

Between two batches the event loop turns at least once, so a subtask whose inputs are never empty
does not starve the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from headrace.core.alignment import Alignment
from headrace.core.channel import Channel
from headrace.core.elements import Barrier, Batch, Element, End
from headrace.core.waiting import Waiting


class Gate:
    """Merges the elements of several channels; it is the only receiver of its channels."""

    def __init__(
        self,
        channels: Sequence[Channel],
        *,
        aligned: bool = True,
        timeless: frozenset[int] = frozenset(),
    ) -> None:
        """`timeless`: the inputs whose rows have no event time, if other inputs have one."""
        self.channels = channels
        self.idle = Waiting()
        """The time in which there was no element to take, or other tasks had their turn."""
        self.aligning = Waiting()
        """The time in which inputs waited for the barriers of others."""
        self._alignment = Alignment(len(channels), aligned, timeless)
        self._ready: deque[tuple[int, Element]] = deque()
        self._next = 0
        self._worked = False
        self._wake: asyncio.Future[None] | None = None
        for channel in channels:
            channel.arrived = self._arrived

    async def get(self) -> tuple[int, Element]:
        """Return the next element and the index of its input.

        After all inputs have ended, the last element is an EndOfStream.
        """
        while not self._ready:
            if self._worked:
                self._worked = False
                with self.idle:
                    await asyncio.sleep(0)
            at = self._choose()
            if at is None:
                self._wake = asyncio.get_running_loop().create_future()
                with self.idle:
                    await self._wake
                continue
            for element in self.channels[at].take():
                self._worked |= isinstance(element, Batch)
                self._ready.extend((at, out) for out in self._alignment.receive(at, element))
                if isinstance(element, Barrier | End):
                    self._align()
        return self._ready.popleft()

    def _align(self) -> None:
        """Start or stop the clock of alignment."""
        waits, waited = bool(self._alignment.blocked), self.aligning.goes_on
        if waits and not waited:
            self.aligning.__enter__()
        elif waited and not waits:
            self.aligning.__exit__(None, None, None)
        elif not waits:
            self.aligning.last = 0.0

    def _choose(self) -> int | None:
        """Return the next input, in turn, that is not blocked and has an element."""
        count = len(self.channels)
        for step in range(count):
            at = (self._next + step) % count
            if at not in self._alignment.blocked and self.channels[at].waits:
                self._next = (at + 1) % count
                return at
        return None

    def _arrived(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
