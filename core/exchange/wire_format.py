"""The frames of a connection between two workers: a header of 32 bytes, and the rows of a batch.

    header     kind: 1 byte, flag: 1, unused: 2, channel: 4, first: 8, second: 8, length: 8
    BATCH      first: rows, second: bytes as the sender's channel counts them; an Arrow IPC stream
               of `length` bytes follows
    WATERMARK  first: event time; the flag is set if the watermark is strict
    IDLE       an idle marker
    BARRIER    first: the number of the checkpoint
    END        the end of the stream; the flag is set if the job is drained
    OPEN       first: rows, second: bytes: the bounds of the receiver's channel
    CREDIT     first: rows, second: bytes that the receiver has taken
    BACKLOG    first: rows, second: bytes of the piece for which the sender has no room
    LATENCY    a latency marker; first: the time at its source, second: the index of the source

The numbers are little-endian. A receiver sends OPEN and CREDIT, a sender all other kinds. A sender
sends nothing before OPEN.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from headrace.core.types.elements import (
    Barrier,
    ControlElement,
    EndOfStream,
    IdleMarker,
    LatencyMarker,
    LoopMarker,
    WatermarkElement,
)

HEADER = struct.Struct("<BBxxIqqq")

FIRST_BUFFER_BYTES = 2**15
"""The space for what arrives at first: each worker has connections to all others."""
BUFFER_BYTES = 2**20 + 2**18
"""The space once it was full: a piece of a batch and small frames. A larger frame gets its own."""

FREED_BYTES = 4 * 2**20
"""The size of the largest blocks that the process keeps for later use when they are freed."""


class FrameKind(IntEnum):
    """The kind of a frame."""

    BATCH = 1
    WATERMARK = 2
    IDLE = 3
    BARRIER = 4
    END = 5
    OPEN = 6
    CREDIT = 7
    BACKLOG = 8
    LATENCY = 9


class WireFrame(NamedTuple):
    """A frame that has arrived."""

    kind: int
    flag: int
    channel: int
    first: int
    second: int
    payload: bytes


def encode_control(channel: int, element: ControlElement) -> bytes:
    """Return the frame of a control element."""
    match element:
        case WatermarkElement(at_us, is_strict):
            return HEADER.pack(FrameKind.WATERMARK, is_strict, channel, at_us, 0, 0)
        case Barrier(checkpoint):
            return HEADER.pack(FrameKind.BARRIER, 0, channel, checkpoint, 0, 0)
        case IdleMarker():
            return HEADER.pack(FrameKind.IDLE, 0, channel, 0, 0, 0)
        case LatencyMarker(source, at_us):
            return HEADER.pack(FrameKind.LATENCY, 0, channel, at_us, source, 0)
        case EndOfStream(is_drained):
            return HEADER.pack(FrameKind.END, is_drained, channel, 0, 0, 0)
        case LoopMarker():
            raise AssertionError("a loop runs in one process")


def decode_control(frame: WireFrame) -> ControlElement:
    """Return the control element of a frame."""
    match frame.kind:
        case FrameKind.WATERMARK:
            return WatermarkElement(frame.first, bool(frame.flag))
        case FrameKind.BARRIER:
            return Barrier(frame.first)
        case FrameKind.IDLE:
            return IdleMarker()
        case FrameKind.LATENCY:
            return LatencyMarker(frame.second, frame.first)
        case FrameKind.END:
            return EndOfStream(bool(frame.flag))
    raise ValueError(f"frame of kind {frame.kind}")


class FrameReader:
    """Cuts the bytes of a connection into frames, with one copy of each payload."""

    def __init__(self) -> None:
        # The GNU allocator returns the memory of each payload to the system, and fresh memory costs
        # four times as much as decoding, until a block of more bytes has been freed.
        bytearray(FREED_BYTES)
        self._buffer = memoryview(bytearray(FIRST_BUFFER_BYTES))
        self._start = self._end = 0

    @property
    def is_between_frames(self) -> bool:
        """Whether every frame that has begun is complete."""
        return self._start == self._end

    def get_space(self) -> memoryview:
        """Return the space for the next bytes."""
        return self._buffer[self._end :]

    def advance(self, count: int) -> Iterator[WireFrame]:
        """Yield the frames that the next bytes complete; `count` bytes are in the space."""
        self._end += count
        needed = HEADER.size
        while self._end - self._start >= HEADER.size:
            kind, flag, channel, first, second, length = HEADER.unpack_from(
                self._buffer, self._start
            )
            needed = HEADER.size + length
            if self._end - self._start < needed:
                break
            body = self._start + HEADER.size
            self._start += needed
            payload = bytes(self._buffer[body : body + length])
            yield WireFrame(kind, flag, channel, first, second, payload)
            needed = HEADER.size
        self._make_space(needed)

    def _make_space(self, needed: int) -> None:
        """Move what has come of a frame to the front, if the rest has no space behind it.

        More space is made if the last bytes have filled it.
        """
        is_full = self._end == len(self._buffer)
        if self._start == self._end:
            self._start = self._end = 0
        if self._start == 0 and len(self._buffer) > BUFFER_BYTES >= needed:
            self._replace_buffer(BUFFER_BYTES)
        elif is_full or self._start + needed > len(self._buffer):
            self._replace_buffer(max(BUFFER_BYTES, needed))

    def _replace_buffer(self, size: int) -> None:
        rest = self._buffer[self._start : self._end]
        if size != len(self._buffer):
            self._buffer = memoryview(bytearray(size))
        self._buffer[: len(rest)] = rest
        self._start, self._end = 0, len(rest)
