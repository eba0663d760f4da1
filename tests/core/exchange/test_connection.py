"""Many channels over one connection: what arrives is what a local channel would deliver."""

from __future__ import annotations

import asyncio
import random
import select
import socket
import sys
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import polars as pl
import pytest

from headrace.core.api.failures import build_failure
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.dataflow.channel import Channel, ChannelBounds, OutputChannel
from headrace.core.exchange.connection import Connection
from headrace.core.exchange.peer_lost import PeerLost
from headrace.core.exchange.stream_end import SocketEnd
from headrace.core.exchange.wire_format import HEADER, FrameKind
from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.core.types.elements import (
    MAX_WATERMARK_US,
    Barrier,
    Batch,
    Element,
    EndOfStream,
    IdleMarker,
    WatermarkElement,
)
from tests.support.runtime.connected_workers import (
    connected,
    cut_socketpair,
    take_until_end,
    turn_until,
)

T = TypeVar("T")


def simulate(seed: int, work: Coroutine[object, object, T]) -> T:
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(seed)) as runner:
        return runner.run(work)


def batch(*values: int) -> Batch:
    return Batch(pl.DataFrame({"a": list(values)}, schema={"a": pl.Int64}))


def encode_rows(channel: int, rows: Batch) -> bytes:
    data = rows.frame.write_ipc_stream(None).getvalue()
    return HEADER.pack(FrameKind.BATCH, 0, channel, rows.rows, 8 * rows.rows, len(data)) + data


def joined(elements: list[Element]) -> list[object]:
    """What must arrive, however batches were cut or joined and watermarks overtaken."""
    told: list[object] = []
    rows: list[int] = []
    watermark: WatermarkElement | None = None
    for element in elements:
        match element:
            case Batch(frame):
                rows += frame["a"].to_list()
            case WatermarkElement(_, is_strict=False):
                watermark = element
            case IdleMarker():
                pass
            case fence:
                last = fence if isinstance(fence, WatermarkElement) else watermark
                told += [rows, last, fence]
                rows, watermark = [], None
    return told


def draw_elements(chance: random.Random) -> list[Element]:
    elements: list[Element] = []
    for number in range(chance.randint(0, 40)):
        kind = chance.random()
        if kind < 0.6:
            elements.append(batch(*(chance.randrange(1000) for _ in range(chance.randint(1, 12)))))
        elif kind < 0.85:
            elements.append(WatermarkElement(number, is_strict=chance.random() < 0.3))
        else:
            elements.append(IdleMarker() if kind < 0.9 else Barrier(number))
    return [*elements, EndOfStream()]


async def put_all(channel: OutputChannel, elements: list[Element]) -> None:
    for element in elements:
        await channel.put(element)


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_random_traffic_arrives_as_over_local_channels(seed: int, is_remote: bool) -> None:
    chance = random.Random(seed)
    bounds = [
        ChannelBounds(chance.choice((1, 2, 7, 32768)), chance.choice((1, 50, 2**20)))
        for _ in range(6)
    ]
    sent = [draw_elements(chance) for _ in bounds]

    async def main() -> list[list[Element]]:
        channels = [Channel(each) for each in bounds]
        takers = [take_until_end(channel, lambda: chance.random()) for channel in channels]
        async with connected(cut_socketpair(seed)) as ends:
            senders: list[OutputChannel] = []
            for number, channel in enumerate(channels):
                if not is_remote:
                    senders.append(channel)
                    continue
                senders.append(ends[number % 2].open_sender(number))
                ends[1 - number % 2].open_receiver(number, channel)
            puts = map(put_all, senders, sent)
            taken, _ = await asyncio.gather(asyncio.gather(*takers), asyncio.gather(*puts))
            assert ends[0].is_ended and ends[1].is_ended
            return taken

    for arrived, wanted in zip(simulate(seed, main()), sent, strict=True):
        assert joined(arrived) == joined(wanted)


@pytest.mark.parametrize("seed", range(20))
def test_channels_of_one_row_in_a_circle_do_not_stop(seed: int) -> None:
    async def main() -> None:
        one = ChannelBounds(rows=1)
        there, back = Channel(one), Channel(one)
        async with connected(cut_socketpair(seed)) as (left, right):
            out, home = left.open_sender(1), right.open_sender(1)
            right.open_receiver(1, there)
            left.open_receiver(1, back)

            async def echo() -> None:
                for element in await take_until_end(there):
                    await home.put(element)

            sent: list[Element] = [batch(*range(30)), Barrier(1), batch(5), EndOfStream()]
            echoes = asyncio.create_task(echo())
            _, returned = await asyncio.gather(put_all(out, sent), take_until_end(back))
            await echoes
            assert joined(returned) == joined(sent)

    simulate(seed, main())


def test_a_full_channel_stops_no_other_and_no_control_element() -> None:
    async def main() -> None:
        full, free = Channel(ChannelBounds(rows=2)), Channel(ChannelBounds(rows=2))
        async with connected() as (left, right):
            blocked, other = left.open_sender(1), left.open_sender(2)
            right.open_receiver(1, full)
            right.open_receiver(2, free)
            await blocked.put(batch(1, 2))
            await blocked.put(WatermarkElement(1))
            await blocked.put(Barrier(1))
            waiting = asyncio.create_task(blocked.put(batch(3)))
            elements: list[Element] = [*(batch(n) for n in range(100)), EndOfStream()]
            _, taken = await asyncio.gather(put_all(other, elements), take_until_end(free))
            assert joined(taken) == joined(elements)
            assert not waiting.done()
            assert full.statistics().backlog_rows == 1
            assert blocked.statistics().blocked_s > 0
            assert [type(each) for each in full.take()] == [Batch, WatermarkElement]
            await waiting
            assert full.take() == [Barrier(1)]

    asyncio.run(main())


def test_small_batches_are_joined_while_the_receiver_is_busy() -> None:
    async def main() -> None:
        channel = Channel(ChannelBounds())
        async with connected() as (left, right):
            sender = left.open_sender(7)
            right.open_receiver(7, channel)
            await put_all(sender, [*(batch(n) for n in range(10)), Barrier(1)])
            await turn_until(lambda: channel.statistics().waiting_elements == 11)
            (rows,) = channel.take()
            assert isinstance(rows, Batch)
            assert rows.frame["a"].to_list() == [*range(10)]

    asyncio.run(main())


def test_elements_wait_until_the_receiver_has_opened_the_channel() -> None:
    async def main() -> None:
        channel = Channel(ChannelBounds())
        async with connected() as (left, right):
            sender = left.open_sender(1)
            put = asyncio.create_task(put_all(sender, [Barrier(1), EndOfStream()]))
            await asyncio.sleep(0.01)
            assert not put.done()
            right.open_receiver(1, channel)
            await put
            assert await take_until_end(channel) == [Barrier(1), EndOfStream()]

    asyncio.run(main())


def test_credit_for_few_rows_is_returned_when_the_sender_has_a_backlog() -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        lone = Connection(SocketEnd(left), "worker 2")
        channel = Channel(ChannelBounds(rows=100))
        lone.open_receiver(1, channel)
        row = encode_rows(1, batch(1))
        total = 0

        async def list_answers(rows: int) -> list[tuple[int, int]]:
            nonlocal total
            right.send(row * rows)
            total += rows
            await turn_until(lambda: channel.statistics().rows == total)
            channel.take()
            if not select.select([right], [], [], 0)[0]:
                return []
            return [(kind, count) for kind, _, _, count, *_ in HEADER.iter_unpack(right.recv(999))]

        assert await list_answers(0) == [(FrameKind.OPEN, 100)]
        assert await list_answers(1) == []
        assert await list_answers(23) == []
        assert await list_answers(1) == [(FrameKind.CREDIT, 25)]
        assert await list_answers(2) == []
        right.send(HEADER.pack(FrameKind.BACKLOG, 0, 1, 99, 800, 0))
        await turn_until(lambda: channel.statistics().backlog_rows == 99)
        assert await list_answers(0) == [(FrameKind.CREDIT, 2)]
        assert await list_answers(1) == []  # the sender does not wait any more
        await lone.close()
        right.close()

    asyncio.run(main())


def test_a_row_of_many_megabytes_passes_in_order() -> None:
    async def main() -> None:
        channel = Channel(ChannelBounds(rows=10, bytes=1000))
        with ThreadPoolExecutor(1) as threads:
            async with connected(executor=KernelExecutor(threads)) as (left, right):
                sender = left.open_sender(1)
                right.open_receiver(1, channel)
                huge = pl.DataFrame({"a": [1], "text": ["ab" * 5_000_000]})
                frame = pl.concat([huge, huge.with_columns(text=pl.lit("c")), huge])
                elements: list[Element] = [Batch(frame), Barrier(1), Batch(huge), EndOfStream()]
                _, taken = await asyncio.gather(put_all(sender, elements), take_until_end(channel))
                assert joined(taken) == joined(elements)
                rows = pl.concat(each.frame for each in taken if isinstance(each, Batch))
                assert rows.equals(pl.concat([frame, huge]))
                assert sender.statistics().rows == 4

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(20))
def test_a_cancelled_put_leaves_the_connection_whole(seed: int) -> None:
    async def main() -> None:
        channels = [Channel(ChannelBounds()) for _ in range(2)]
        async with connected(cut_socketpair(seed)) as (left, right):
            senders = [left.open_sender(number) for number in range(2)]
            for number, channel in enumerate(channels):
                right.open_receiver(number, channel)
            large = batch(*range(2000))
            cancelled, other = (asyncio.create_task(each.put(large)) for each in senders)
            await turn_until(lambda: senders[0].statistics().batches == 1)
            cancelled.cancel()  # in most schedules, some of its bytes are sent
            await other
            await senders[1].put(EndOfStream())
            wanted = joined([large, EndOfStream()])
            assert joined(await take_until_end(channels[1])) == wanted
            assert [each.rows for each in channels[0].take() if isinstance(each, Batch)] == [2000]

    simulate(seed, main())


@pytest.mark.parametrize("sent", [b"", b"\x01\x00", HEADER.pack(1, 0, 5, 1, 8, 100) + b"abc"])
def test_a_peer_that_dies_ends_no_channel(sent: bytes) -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        told: list[PeerLost] = []
        lone = Connection(SocketEnd(left), "worker 2", on_lost=told.append)
        channel = Channel(ChannelBounds())
        lone.open_receiver(5, channel)
        sender, never = lone.open_sender(1), lone.open_sender(2)
        right.send(HEADER.pack(FrameKind.OPEN, 0, 1, 3, 1000, 0))
        await sender.put(batch(1, 2))
        waits = [asyncio.create_task(each.put(batch(3, 4))) for each in (sender, never)]
        await asyncio.sleep(0)
        right.send(sent)
        right.close()
        for each in waits:
            with pytest.raises(
                PeerLost, match=r"^the connection to worker 2 is lost: it has ended"
            ):
                await each
        with pytest.raises(PeerLost):
            await sender.put(Barrier(1))
        with pytest.raises(PeerLost):
            await lone.open_sender(3).put(Barrier(1))
        assert told == [lone.lost]
        assert ("in the middle of a frame" in told[0].message) == bool(sent)
        assert build_failure(told[0], "step").is_transient
        assert channel.take() == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await lone.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (HEADER.pack(99, 0, 1, 0, 0, 0), "ValueError: frame of kind 99"),
        (HEADER.pack(4, 0, 9, 0, 0, 0), "KeyError: 9"),
        (2 * encode_rows(1, batch(1, 2)), "ValueError: 2 rows came without credit"),
    ],
)
def test_what_cannot_be_read_loses_the_peer(data: bytes, reason: str) -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        lost = asyncio.get_running_loop().create_future()
        lone = Connection(SocketEnd(left), "worker 2", on_lost=lost.set_result)
        lone.open_receiver(1, Channel(ChannelBounds(rows=3)))
        right.send(data)
        assert f"what it sent cannot be read: {reason}" in str(await lost)
        assert right.recv(1000)
        assert right.recv(1000) == b""
        right.close()
        await lone.close()

    asyncio.run(main())


def test_what_a_peer_has_sent_before_it_left_arrives() -> None:
    async def main() -> None:
        told: list[PeerLost] = []
        channel = Channel(ChannelBounds(rows=4))
        async with connected(on_lost=told.append) as (left, right):
            sender = left.open_sender(1)
            right.open_receiver(1, channel)
            await put_all(sender, [batch(1, 2), EndOfStream()])
            await left.close()
            # Credit for the rows cannot be written any more.
            assert joined(await take_until_end(channel)) == [[1, 2], None, EndOfStream()]
            await turn_until(lambda: right.lost is not None)
        assert told == []

    asyncio.run(main())


def test_another_process_echoes_until_it_is_killed() -> None:
    async def main() -> None:
        here, there = socket.socketpair()
        module, number = "tests.support.runtime.echo_process", there.fileno()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, str(number), pass_fds=[number]
        )
        there.close()
        lost = asyncio.get_running_loop().create_future()
        connection = Connection(SocketEnd(here), "worker 2", on_lost=lost.set_result)
        returned = [Channel(ChannelBounds()), Channel(ChannelBounds(rows=1000))]
        senders = [connection.open_sender(number) for number in range(2)]
        for number, channel in enumerate(returned):
            connection.open_receiver(number, channel)
        try:
            rows = Batch(pl.DataFrame({"a": range(50_000)}))
            last = WatermarkElement(MAX_WATERMARK_US)  # the gate of the other process adds it
            elements: list[Element] = [rows, Barrier(1), batch(1), last, EndOfStream()]
            _, taken = await asyncio.gather(
                put_all(senders[0], elements), take_until_end(returned[0])
            )
            assert joined(taken) == joined(elements)
            await senders[1].put(batch(1))
            process.kill()
            assert "it has ended" in str(await lost)
            with pytest.raises(PeerLost):
                await senders[1].put(batch(1))
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            await connection.close()

    asyncio.run(main())
