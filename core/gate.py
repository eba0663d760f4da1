"""The inputs of a subtask: waits until one of them has something, in turn, and aligns them.

Between one batch and the next the loop turns once at least: a subtask whose inputs never run dry
keeps no other from running.
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
    """Many channels in, one sequence of elements out. It is the only receiver of its channels."""

    def __init__(
        self,
        channels: Sequence[Channel],
        *,
        aligned: bool = True,
        timeless: frozenset[int] = frozenset(),
    ) -> None:
        """`timeless` are inputs whose rows have no event time, beside others that have one."""
        self.channels = channels
        self.idle = Waiting()
        """How long nothing could be taken, or it was the turn of others."""
        self.aligning = Waiting()
        """How long inputs have waited for the barriers of others."""
        self._alignment = Alignment(len(channels), aligned, timeless)
        self._ready: deque[tuple[int, Element]] = deque()
        self._next = 0
        self._worked = False
        self._wake: asyncio.Future[None] | None = None
        for channel in channels:
            channel.arrived = self._arrived

    async def get(self) -> tuple[int, Element]:
        """The next element and the input it came on; an End when every input has ended."""
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
        """Note since when inputs wait for others, or that they do no more."""
        waits, waited = bool(self._alignment.blocked), self.aligning.goes_on
        if waits and not waited:
            self.aligning.__enter__()
        elif waited and not waits:
            self.aligning.__exit__(None, None, None)
        elif not waits:
            self.aligning.last = 0.0

    def _choose(self) -> int | None:
        """The next input in turn that may be taken from and has something."""
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
