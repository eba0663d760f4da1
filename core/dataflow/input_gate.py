"""The input gate of a subtask: reads its channels in turn, and aligns their elements.

Between two batches the event loop turns at least once, so a subtask whose inputs are never empty
does not starve the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence

from headrace.core.api.stopwatch import Stopwatch
from headrace.core.dataflow.channel import Channel
from headrace.core.dataflow.input_aligner import InputAligner
from headrace.core.types.elements import Barrier, Batch, Element, EndOfStream


class InputGate:
    """Merges the elements of several channels; it is the only receiver of its channels."""

    def __init__(
        self,
        channels: Sequence[Channel],
        *,
        aligned: bool = True,
        timeless: frozenset[int] = frozenset(),
        origins: Sequence[frozenset[tuple[str, int]]] = (),
        loop_inputs: Mapping[str, frozenset[int]] | None = None,
    ) -> None:
        """`timeless`: the inputs whose rows have no event time, if other inputs have one.

        `origins`: for each input, the subtasks of sources without which it is not idle.
        `loop_inputs`: the inputs from inside of each loop.
        """
        self.channels = channels
        self.idle_time = Stopwatch()
        """The time in which there was no element to take, or other tasks had their turn."""
        self.alignment_time = Stopwatch()
        """The time in which inputs waited for the barriers of others."""
        self._aligner = InputAligner(len(channels), aligned, timeless, origins, loop_inputs or {})
        self._aligned_elements: deque[tuple[int, Element]] = deque()
        self._next_input = 0
        self._took_batch = False
        self._wake_future: asyncio.Future[None] | None = None
        for channel in channels:
            channel.on_arrival = self._wake_up

    async def get(self) -> tuple[int, Element]:
        """Return the next element and the index of its input.

        After all inputs have ended, the last element is an EndOfStream.
        """
        while not self._aligned_elements:
            if self._took_batch:
                self._took_batch = False
                with self.idle_time:
                    await asyncio.sleep(0)
            if not self._receive_next():
                self._wake_future = asyncio.get_running_loop().create_future()
                with self.idle_time:
                    await self._wake_future
        return self._aligned_elements.popleft()

    def get_nowait(self) -> tuple[int, Element] | None:
        """Return the next element and the index of its input if there is one now."""
        while not self._aligned_elements:
            if not self._receive_next():
                return None
        return self._aligned_elements.popleft()

    def _receive_next(self) -> bool:
        """Take the elements of the next input; return whether there was one."""
        at = self._choose_input()
        if at is None:
            return False
        for element in self.channels[at].take():
            self._took_batch |= isinstance(element, Batch)
            self._aligned_elements.extend((at, out) for out in self._aligner.receive(at, element))
            if isinstance(element, Barrier | EndOfStream):
                self._time_alignment()
        return True

    def _time_alignment(self) -> None:
        """Start or stop the clock of alignment."""
        waits, waited = bool(self._aligner.blocked_inputs), self.alignment_time.is_running
        if waits and not waited:
            self.alignment_time.__enter__()
        elif waited and not waits:
            self.alignment_time.__exit__(None, None, None)
        elif not waits:
            self.alignment_time.last_s = 0.0

    def _choose_input(self) -> int | None:
        """Return the next input, in turn, that is not blocked and has an element."""
        count = len(self.channels)
        for step in range(count):
            at = (self._next_input + step) % count
            if at not in self._aligner.blocked_inputs and self.channels[at].has_elements:
                self._next_input = (at + 1) % count
                return at
        return None

    def _wake_up(self) -> None:
        if self._wake_future is not None and not self._wake_future.done():
            self._wake_future.set_result(None)
