"""The frames of a connection are found in any pieces of its bytes."""

from __future__ import annotations

import random

import pytest

from headrace.core.exchange.wire_format import (
    BUFFER_BYTES,
    FIRST_BUFFER_BYTES,
    HEADER,
    FrameKind,
    FrameReader,
    WireFrame,
    decode_control,
    encode_control,
)
from headrace.core.types.elements import (
    MAX_WATERMARK_US,
    MIN_WATERMARK_US,
    Barrier,
    ControlElement,
    EndOfStream,
    IdleMarker,
    LatencyMarker,
    WatermarkElement,
)


def read_all(reader: FrameReader, data: bytes, chance: random.Random) -> list[WireFrame]:
    frames: list[WireFrame] = []
    while data:
        space = reader.get_space()
        size = min(len(data), len(space), chance.choice((1, 40, 10_000, 2**20)))
        space[:size] = data[:size]
        data = data[size:]
        frames += reader.advance(size)
    return frames


@pytest.mark.parametrize(
    "element",
    [
        WatermarkElement(MIN_WATERMARK_US),
        WatermarkElement(MAX_WATERMARK_US, is_strict=True),
        IdleMarker(),
        LatencyMarker(300, 2**60),
        Barrier(2**40),
        EndOfStream(),
        EndOfStream(is_drained=True),
    ],
)
def test_a_control_element_is_one_header(element: ControlElement) -> None:
    data = encode_control(2**32 - 1, element)
    assert len(data) == HEADER.size == 32
    (frame,) = read_all(FrameReader(), data, random.Random(0))
    assert frame.channel == 2**32 - 1
    assert decode_control(frame) == element


def test_a_connection_with_little_to_read_takes_little_memory() -> None:
    reader, small = FrameReader(), HEADER.pack(FrameKind.BATCH, 0, 7, 1, 1, 100) + bytes(100)
    for _ in range(2 * FIRST_BUFFER_BYTES // len(small)):
        assert len(read_all(reader, small, random.Random(0))) == 1
    assert len(reader.get_space()) == FIRST_BUFFER_BYTES
    read_all(reader, 100_000 // len(small) * small, random.Random(0))
    assert len(reader.get_space()) > FIRST_BUFFER_BYTES


@pytest.mark.parametrize("seed", range(20))
def test_frames_are_found_wherever_reads_end(seed: int) -> None:
    chance = random.Random(seed)
    reader = FrameReader()
    payloads = [
        chance.randbytes(chance.choice((0, 1, 500, 100_000, BUFFER_BYTES - 32, 3_000_000)))
        for _ in range(12)
    ]
    data = b"".join(
        HEADER.pack(FrameKind.BATCH, 0, 7, number, -number, len(payload)) + payload
        for number, payload in enumerate(payloads)
    )
    frames = read_all(reader, data, chance)
    assert [frame.payload for frame in frames] == payloads
    assert [(frame.first, frame.second) for frame in frames] == [(n, -n) for n in range(12)]
    assert reader.is_between_frames
    assert len(reader.get_space()) == BUFFER_BYTES
    reader.get_space()[:1] = b"\1"
    assert [*reader.advance(1)] == []
    assert not reader.is_between_frames
