"""Alignment of watermarks and barriers over several inputs. No clock, no queue, no waiting.

Watermarks. The combined watermark is the minimum over the inputs that are not idle, and it never
decreases: an input that resumes after being idle holds it until it has caught up. The end of
idleness is announced by repeating the watermark, because the rows that ended it may be filtered out
before they reach the next subtask.

An input at MAX_WATERMARK_US holds nothing back and does not count, whether its end has arrived or
not. While all remaining inputs are idle, the combined watermark does not advance to that maximum.

Barriers. With aligned checkpoints (exactly once), barrier n blocks its input until barrier n has
arrived on all inputs; otherwise (at least once) it blocks nothing. A finished input counts as
having sent every barrier and the last watermark. The choice of the next input never depends on the
contents of the inputs, so alignment over bounded channels cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.core.elements import (
    FOREVER_US,
    Barrier,
    Batch,
    Element,
    End,
    Idle,
    Watermark,
)

BEGINNING_US = -(1 << 63)


@dataclass(slots=True)
class _Input:
    watermark_us: int = BEGINNING_US
    idle: bool = False
    ended: bool = False


@dataclass(slots=True)
class Alignment:
    """Combines the elements of `count` inputs into one sequence."""

    count: int
    aligned: bool = True
    timeless: frozenset[int] = frozenset()
    """Inputs whose rows have no event time: they hold back the last watermark only."""
    blocked: set[int] = field(default_factory=set)
    """Inputs that wait for a barrier: their next element must not be taken yet."""
    _inputs: list[_Input] = field(default_factory=list)
    _watermark_us: int = BEGINNING_US
    _idle: bool = False
    _arrived: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._inputs = [_Input() for _ in range(self.count)]

    def receive(self, at: int, element: Element) -> Iterator[Element]:
        """Take the next element of input `at`; yield the elements to hand on."""
        match element:
            case Batch():
                yield element
                self._inputs[at].idle = False
                if self._idle:
                    yield from self._time()
            case Watermark(at_us):
                self._inputs[at].idle = False
                self._inputs[at].watermark_us = max(self._inputs[at].watermark_us, at_us)
                yield from self._time()
            case Idle():
                self._inputs[at].idle = True
                yield from self._time()
            case Barrier(checkpoint):
                self._arrived.setdefault(checkpoint, set()).add(at)
                if self.aligned:
                    self.blocked.add(at)
                yield from self._barriers()
            case End():
                self._inputs[at].ended = True
                self._inputs[at].watermark_us = FOREVER_US
                yield from self._barriers()
                yield from self._time()
                if all(input.ended for input in self._inputs):
                    yield End()

    def _time(self) -> Iterator[Element]:
        """Yield the watermark if it has advanced, and any change of idleness."""
        timed = [each for at, each in enumerate(self._inputs) if at not in self.timeless]
        open_ = [input for input in timed if input.watermark_us < FOREVER_US]
        if not open_ and not all(self._inputs[at].ended for at in self.timeless):
            # Only inputs without event time are left; their rows hold no time back.
            self._idle = True
            yield Idle()
            return
        live = [input.watermark_us for input in open_ if not input.idle]
        was_idle, self._idle = self._idle, bool(open_) and not live
        if self._idle:
            if not was_idle:
                yield Idle()
            return
        low = min(live, default=FOREVER_US)
        if low > self._watermark_us or was_idle:
            self._watermark_us = max(low, self._watermark_us)
            yield Watermark(self._watermark_us)

    def _barriers(self) -> Iterator[Element]:
        """Yield the barriers that have arrived on all unfinished inputs, oldest first."""
        live = {at for at, input in enumerate(self._inputs) if not input.ended}
        for checkpoint in sorted(self._arrived):
            if live <= self._arrived[checkpoint]:
                del self._arrived[checkpoint]
                self.blocked.clear()
                yield Barrier(checkpoint)
