"""Many inputs as one: what their elements mean together. No clock, no queue, no waiting.

The watermark is the least of the inputs that are not idle, and never goes back. Barrier n of one
input blocks that input until barrier n has come on all of them (aligned), or does not block it (at
least once). An input that has ended counts as having sent every barrier and the last watermark.
Inputs are never chosen by what they hold, which is why alignment over bounded channels cannot lock.
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
                self._inputs[at].idle = False
                self._idle = False
                yield element
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
                yield from self._barriers()
                yield from self._time()
                if all(input.ended for input in self._inputs):
                    yield End()

    def _time(self) -> Iterator[Element]:
        """The watermark when it has moved, or idleness when it has begun."""
        going_on = [input for input in self._inputs if not input.ended]
        live = [input for input in going_on if not input.idle]
        if going_on and not live:
            if not self._idle:
                self._idle = True
                yield Idle()
            return
        self._idle = False
        low = min((input.watermark_us for input in live), default=FOREVER_US)
        if low > self._watermark_us:
            self._watermark_us = low
            yield Watermark(low)

    def _barriers(self) -> Iterator[Element]:
        """The barriers that have come on every input that has not ended, oldest first."""
        live = {at for at, input in enumerate(self._inputs) if not input.ended}
        for checkpoint in sorted(self._arrived):
            if live <= self._arrived[checkpoint]:
                del self._arrived[checkpoint]
                self.blocked.clear()
                yield Barrier(checkpoint)
