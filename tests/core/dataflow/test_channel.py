"""A channel is bounded in rows and bytes, and a gate takes from its channels in turn."""

from __future__ import annotations

import asyncio
from itertools import chain

import polars as pl
import pytest

from headrace.core.dataflow.channel import Channel, ChannelBounds
from headrace.core.dataflow.input_gate import InputGate
from headrace.core.types.elements import (
    MAX_WATERMARK_US,
    Barrier,
    Batch,
    Element,
    EndOfStream,
    IdleMarker,
    LatencyMarker,
    WatermarkElement,
)


def batch(*values: int) -> Batch:
    """Build a batch of one column."""
    return Batch(pl.DataFrame({"a": list(values)}))


def values(element: Element) -> list[int]:
    """Return the values of a batch."""
    assert isinstance(element, Batch)
    return element.frame["a"].to_list()


def taken(channel: Channel) -> list[object]:
    """Take elements from the channel, batches as their values."""
    return [values(e) if isinstance(e, Batch) else e for e in channel.take()]


def test_rows_before_a_barrier_come_as_one_batch_then_the_watermark() -> None:
    async def main() -> None:
        channel = Channel(ChannelBounds())
        before = (batch(1), WatermarkElement(5), IdleMarker(), batch(2, 3), WatermarkElement(6))
        for element in (*before, Barrier(1), batch(4), IdleMarker(), EndOfStream()):
            await channel.put(element)
        assert taken(channel) == [[1, 2, 3], WatermarkElement(6)]
        assert channel.statistics().waiting_rows == 1
        assert taken(channel) == [Barrier(1)]
        assert taken(channel) == [[4], IdleMarker()]
        assert taken(channel) == [EndOfStream()]
        assert taken(channel) == []

    asyncio.run(main())


def test_latency_markers_come_after_all_rows_before_them_and_end_no_idleness() -> None:
    async def main() -> None:
        channel = Channel(ChannelBounds())
        first, second, third = (LatencyMarker(0, at_us) for at_us in range(3))
        before: list[Element] = [
            batch(1),
            first,
            batch(2),
            WatermarkElement(5),
            IdleMarker(),
            second,
        ]
        for element in [*before, Barrier(1), batch(3), third]:
            await channel.put(element)
        assert taken(channel) == [[1, 2], WatermarkElement(5), IdleMarker(), first, second]
        assert taken(channel) == [Barrier(1)]
        assert taken(channel) == [[3], third]
        assert channel.statistics().waiting_rows == 0

    asyncio.run(main())


def test_rows_do_not_pass_a_strict_watermark() -> None:
    async def main() -> None:
        channel = Channel(ChannelBounds())
        strict = WatermarkElement(6, is_strict=True)
        for element in (batch(1), WatermarkElement(5), batch(2), strict, batch(3), IdleMarker()):
            await channel.put(element)
        assert taken(channel) == [[1, 2], strict]
        assert taken(channel) == [[3], IdleMarker()]

    asyncio.run(main())


def test_an_input_that_speaks_again_is_not_idle() -> None:
    async def main() -> None:
        channel = Channel(ChannelBounds())
        for element in (WatermarkElement(1), IdleMarker(), WatermarkElement(2), IdleMarker()):
            await channel.put(element)
        assert taken(channel) == [WatermarkElement(2), IdleMarker()]
        for element in (IdleMarker(), WatermarkElement(3)):
            await channel.put(element)
        assert taken(channel) == [WatermarkElement(3)]

    asyncio.run(main())


def test_a_full_channel_makes_its_sender_wait_and_says_how_long() -> None:
    async def main() -> None:
        channel = Channel(ChannelBounds(rows=3))
        await channel.put(batch(1, 2))
        sender = asyncio.create_task(channel.put(batch(3, 4)))
        await asyncio.sleep(0)
        assert not sender.done()
        assert taken(channel) == [[1, 2]]
        await sender
        assert taken(channel) == [[3, 4]]
        assert channel.statistics().blocked_s > 0
        assert channel.statistics().rows == 4
        assert channel.statistics().waiting_rows == 0

    asyncio.run(main())


@pytest.mark.parametrize("bounds", [ChannelBounds(rows=30), ChannelBounds(bytes=240)])
def test_a_batch_beyond_the_bounds_passes_in_pieces(bounds: ChannelBounds) -> None:
    async def main() -> None:
        channel = Channel(bounds)
        sender = asyncio.create_task(channel.put(batch(*range(100))))
        pieces = []
        while not sender.done() or channel.has_elements:
            await asyncio.sleep(0)
            assert channel.statistics().waiting_rows <= 30
            pieces.append(taken(channel)[0])
        assert pieces == [[*range(at, min(at + 30, 100))] for at in range(0, 100, 30)]

    asyncio.run(main())


def test_a_row_beyond_the_bound_passes_an_empty_channel() -> None:
    async def main() -> None:
        channel = Channel(ChannelBounds(bytes=1000))
        rows = ["a", "b" * 5000, "c", "d" * 5000, "e" * 5000]
        sender = asyncio.create_task(channel.put(Batch(pl.DataFrame({"a": rows}))))
        pieces: list[list[str]] = []
        while not sender.done() or channel.has_elements:
            await asyncio.sleep(0)
            (element,) = channel.take()
            assert isinstance(element, Batch)
            pieces.append(element.frame["a"].to_list())
        assert list(chain.from_iterable(pieces)) == rows
        assert all(sum(map(len, piece)) <= 1000 or len(piece) == 1 for piece in pieces)

    asyncio.run(main())


def test_bytes_bound_as_rows_do() -> None:
    async def main() -> None:
        channel = Channel(ChannelBounds(rows=1000, bytes=100))
        await channel.put(batch(*range(10)))
        sender = asyncio.create_task(channel.put(batch(*range(10))))
        await asyncio.sleep(0)
        assert not sender.done()
        channel.take()
        await sender

    asyncio.run(main())


def test_a_control_element_never_waits_for_room() -> None:
    async def main() -> None:
        channel = Channel(ChannelBounds(rows=1))
        await channel.put(batch(1))
        await asyncio.wait_for(channel.put(Barrier(1)), 1)

    asyncio.run(main())


def test_a_cancelled_sender_leaves_the_channel_as_it_was() -> None:
    async def main() -> None:
        channel = Channel(ChannelBounds(rows=1))
        await channel.put(batch(1))
        sender = asyncio.create_task(channel.put(batch(2)))
        await asyncio.sleep(0)
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)
        assert taken(channel) == [[1]]
        assert taken(channel) == []

    asyncio.run(main())


def test_a_gate_holds_a_blocked_input_back_and_ends_when_all_have() -> None:
    async def main() -> None:
        left, right = Channel(ChannelBounds()), Channel(ChannelBounds())
        gate = InputGate([left, right])
        await left.put(Barrier(1))
        await left.put(batch(9))
        await right.put(batch(1))
        await right.put(Barrier(1))
        for channel in (left, right):
            await channel.put(EndOfStream())
        seen: list[object] = []
        while not seen or seen[-1] != EndOfStream():
            _, element = await gate.get()
            seen.append(values(element) if isinstance(element, Batch) else element)
        assert seen == [[1], Barrier(1), [9], WatermarkElement(MAX_WATERMARK_US), EndOfStream()]

    asyncio.run(main())


def test_a_gate_waits_for_whichever_input_speaks_first() -> None:
    async def main() -> None:
        channels = [Channel(ChannelBounds()) for _ in range(3)]
        gate = InputGate(channels)
        getting = asyncio.create_task(gate.get())
        await asyncio.sleep(0)
        await channels[2].put(batch(7))
        at, element = await getting
        assert (at, values(element)) == (2, [7])

    asyncio.run(main())


def test_a_gate_that_always_has_something_lets_others_run() -> None:
    async def main() -> None:
        left, right = Channel(ChannelBounds()), Channel(ChannelBounds())
        gate = InputGate([left, right])
        turns: list[object] = []

        async def other() -> None:
            while True:
                turns.append("other")
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        for channel in (left, right):
            await channel.put(batch(1))
            await channel.put(Barrier(1))
            await channel.put(batch(2))
        while len(turns) < 8:
            _, element = await gate.get()
            turns.append(values(element) if isinstance(element, Batch) else element)
        task.cancel()
        assert turns == [[1], "other", [1], "other", Barrier(1), [2], "other", [2]]

    asyncio.run(main())
