"""Many inputs as one: what their elements mean together. No clock, no queue, no waiting.

The watermark is the least of the inputs that are not idle, and never goes back: an input that was
idle and speaks again holds it where it is until it has caught up. Whoever reads is told when
idleness ends, by the watermark once more, because the rows that ended it may not get that far.

An input at the last watermark has nothing to hold back and nothing to wait for, and so does not
count, whether its end has come yet or not; while others are idle it is not the end of time.

Barrier n of one input blocks that input until barrier n has come on all of them (aligned), or does
not block it (at least once). An input that has ended counts as having sent every barrier and the
last watermark. Inputs are never chosen by what they hold, which is why alignment over bounded
channels cannot lock.
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
    """The state of a gate over `count` inputs."""

    count: int
    aligned: bool = True
    timeless: frozenset[int] = frozenset()
    """Inputs whose rows have no time: they hold back nothing but the end of time."""
    blocked: set[int] = field(default_factory=set)
    """Inputs whose next element must not be taken yet."""
    _inputs: list[_Input] = field(default_factory=list)
    _watermark_us: int = BEGINNING_US
    _idle: bool = False
    _arrived: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._inputs = [_Input() for _ in range(self.count)]

    def receive(self, at: int, element: Element) -> Iterator[Element]:
        """What goes on when this element has come on that input."""
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
        """The watermark when it has moved, and idleness when it has begun or ended."""
        timed = [each for at, each in enumerate(self._inputs) if at not in self.timeless]
        going_on = [input for input in timed if input.watermark_us < FOREVER_US]
        if not going_on and not all(self._inputs[at].ended for at in self.timeless):
            # Whose rows still come have no time: they hold nobody back, before or behind a batch.
            self._idle = True
            yield Idle()
            return
        live = [input.watermark_us for input in going_on if not input.idle]
        was_idle, self._idle = self._idle, bool(going_on) and not live
        if self._idle:
            if not was_idle:
                yield Idle()
            return
        low = min(live, default=FOREVER_US)
        if low > self._watermark_us or was_idle:
            self._watermark_us = max(low, self._watermark_us)
            yield Watermark(self._watermark_us)

    def _barriers(self) -> Iterator[Element]:
        """The barriers that have come on every input that has not ended, oldest first."""
        live = {at for at, input in enumerate(self._inputs) if not input.ended}
        for checkpoint in sorted(self._arrived):
            if live <= self._arrived[checkpoint]:
                del self._arrived[checkpoint]
                self.blocked.clear()
                yield Barrier(checkpoint)
