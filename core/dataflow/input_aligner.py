"""Alignment of watermarks and barriers over several inputs. No clock, no queue, no waiting.

Watermarks. The combined watermark is the minimum over the inputs that are not idle, and it never
decreases: an input that resumes after being idle holds it until it has caught up. The end of
idleness is announced by repeating the watermark, because the rows that ended it may be filtered out
before they reach the next subtask.

An input is idle only while all subtasks of sources that it depends on are: its origins. So when an
input resumes, all inputs are about to resume that have its origins, as in a join of a source with
itself, or behind an exchange. They are about to emit rows of the same time, and hold the watermark
until they have.

An input at MAX_WATERMARK_US holds nothing back and does not count, whether its end has arrived or
not. While all remaining inputs are idle, the combined watermark does not advance to that maximum.

Barriers. With aligned checkpoints (exactly once), barrier n blocks its input until barrier n has
arrived on all inputs; otherwise (at least once) it blocks nothing. A finished input counts as
having sent every barrier and the last watermark.

Markers. A marker of a loop is handed on when it has arrived on all inputs from inside the loop; it
blocks none. A marker of another loop goes no further.

The choice of the next input never depends on the
contents of the inputs, so alignment over bounded channels cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from headrace.core.types.elements import (
    MAX_WATERMARK_US,
    MIN_WATERMARK_US,
    Barrier,
    Batch,
    Element,
    EndOfStream,
    IdleMarker,
    LatencyMarker,
    LoopMarker,
    WatermarkElement,
)
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class _Input:
    origins: int
    """The number of its origins among those of all inputs."""
    watermark_us: int = MIN_WATERMARK_US
    is_idle: bool = False
    has_ended: bool = False


@dataclass(slots=True)
class InputAligner:
    """Combines the elements of `count` inputs into one sequence."""

    input_count: int
    is_aligned: bool = True
    timeless_inputs: frozenset[int] = frozenset()
    """Inputs whose rows have no event time: they hold back the last watermark only."""
    origins: Sequence[frozenset[tuple[str, int]]] = ()
    """The subtasks of sources that each input depends on; by default each has its own."""
    loop_inputs: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The inputs from inside of each loop, by the name of its head."""
    blocked_inputs: set[int] = field(default_factory=set)
    """Inputs that wait for a barrier: their next element must not be taken yet."""
    _inputs: list[_Input] = field(default_factory=list)
    _timed_inputs: list[_Input] = field(default_factory=list)
    _distinct_origins: list[frozenset[tuple[str, int]]] = field(default_factory=list)
    """The different origins of inputs, by number."""
    _parts: dict[int, frozenset[int]] = field(default_factory=dict)
    """By the number of origins, those of which all are among them, as far as it was asked."""
    _watermark_us: int = MIN_WATERMARK_US
    _is_idle: bool = False
    _is_drained: bool = False
    """Whether an input has ended because the job is drained."""
    _barrier_inputs: dict[int, set[int]] = field(default_factory=dict)
    _markers: dict[str, dict[int, LoopMarker]] = field(default_factory=dict)
    """The markers that have arrived on some inputs, by loop and input."""

    def __post_init__(self) -> None:
        own = [frozenset({("", at)}) for at in range(self.input_count)]
        self._distinct_origins = list(dict.fromkeys(self.origins or own))
        numbers = {each: at for at, each in enumerate(self._distinct_origins)}
        self._inputs = [_Input(numbers[each]) for each in self.origins or own]
        self._timed_inputs = [
            each for at, each in enumerate(self._inputs) if at not in self.timeless_inputs
        ]

    def receive(self, at: int, element: Element) -> Iterator[Element]:
        """Take the next element of input `at`; yield the elements to hand on."""
        match element:
            case Batch():
                yield element
                self._inputs[at].is_idle = False
                if self._is_idle:
                    yield from self._advance_time()
            case WatermarkElement(at_us, is_strict):
                self._inputs[at].is_idle = False
                self._inputs[at].watermark_us = max(self._inputs[at].watermark_us, at_us)
                yield from self._advance_time(is_strict=is_strict)
            case IdleMarker():
                self._inputs[at].is_idle = True
                yield from self._advance_time()
            case LatencyMarker():
                yield element
            case Barrier(checkpoint):
                self._barrier_inputs.setdefault(checkpoint, set()).add(at)
                if self.is_aligned:
                    self.blocked_inputs.add(at)
                yield from self._complete_barriers()
            case LoopMarker(loop):
                self._markers.setdefault(loop, {})[at] = element
                yield from self._complete_marker(loop)
            case EndOfStream(is_drained):
                self._is_drained |= is_drained
                self._inputs[at].has_ended = True
                self._inputs[at].watermark_us = MAX_WATERMARK_US
                yield from self._complete_barriers()
                yield from self._advance_time()
                if all(input.has_ended for input in self._inputs):
                    yield EndOfStream(self._is_drained)

    def _advance_time(self, *, is_strict: bool = False) -> Iterator[Element]:
        """Yield the watermark if it has advanced or is strict, and any change of idleness."""
        open_ = [each for each in self._timed_inputs if each.watermark_us < MAX_WATERMARK_US]
        if not open_ and not all(self._inputs[at].has_ended for at in self.timeless_inputs):
            # Only inputs without event time are left; their rows hold no time back.
            self._is_idle = True
            yield IdleMarker()
            return
        live = [each for each in open_ if not each.is_idle]
        if len(live) < len(open_):
            active = {each.origins for each in live}
            live = [
                each
                for each in open_
                if not each.is_idle or not active.isdisjoint(self._find_parts(each.origins))
            ]
        was_idle, self._is_idle = self._is_idle, bool(open_) and not live
        if self._is_idle:
            if not was_idle:
                yield IdleMarker()
            return
        low = min((each.watermark_us for each in live), default=MAX_WATERMARK_US)
        if low > self._watermark_us or was_idle or is_strict:
            self._watermark_us = max(low, self._watermark_us)
            yield WatermarkElement(self._watermark_us, is_strict)

    def _find_parts(self, number: int) -> frozenset[int]:
        """Return the numbers of the origins that are all among those of a number."""
        if number not in self._parts:
            whole, parts = self._distinct_origins[number], enumerate(self._distinct_origins)
            self._parts[number] = frozenset(at for at, part in parts if part <= whole)
        return self._parts[number]

    def _complete_marker(self, loop: str) -> Iterator[Element]:
        """Yield the marker of a loop if it has arrived on all inputs from inside."""
        inside, markers = self.loop_inputs.get(loop, frozenset()), self._markers[loop]
        if not inside or not inside <= markers.keys():
            return
        del self._markers[loop]
        outside = [input for at, input in enumerate(self._inputs) if at not in inside]
        times = [each.watermark_us for each in outside if not each.is_idle]
        yield replace(
            markers[min(inside)],
            is_waiting=any(each.is_waiting for each in markers.values()),
            is_open=any(each.is_open for each in markers.values())
            or not all(each.has_ended for each in outside),
            outside_us=min([*(each.outside_us for each in markers.values()), *times]),
        )

    def _complete_barriers(self) -> Iterator[Element]:
        """Yield the barriers that have arrived on all unfinished inputs, oldest first."""
        live = {at for at, input in enumerate(self._inputs) if not input.has_ended}
        for checkpoint in sorted(self._barrier_inputs):
            if live <= self._barrier_inputs[checkpoint]:
                del self._barrier_inputs[checkpoint]
                self.blocked_inputs.clear()
                yield Barrier(checkpoint)
