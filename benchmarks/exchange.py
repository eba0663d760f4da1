"""Rows between two processes: microseconds of CPU per row, both sides together, at 8,192 a batch.

On stderr: the CPU of each side, the rows per second, other sizes of batches, and the time of a lone
row to the other process and back, median of 1,000.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from time import perf_counter, process_time

import polars as pl

from headrace.core.dataflow.channel import Channel, ChannelBounds
from headrace.core.dataflow.input_gate import InputGate
from headrace.core.exchange.connection import Connection
from headrace.core.exchange.control_connection import ControlConnection
from headrace.core.exchange.stream_end import SocketEnd
from headrace.core.types.elements import Batch, EndOfStream

SIZES = (22, 1000, 8192, 65536)
ECHO = 100
"""The number of the channel whose rows come back."""
SECONDS = 2.0
PAUSE_S = 0.002
LONE_ROWS = 1000


def bids(rows: int) -> pl.DataFrame:
    """Return rows of 4 integers and 2 texts, 100 bytes a row."""
    numbers = pl.int_range(rows, eager=True)
    return pl.DataFrame(
        {name: numbers for name in ("auction", "bidder", "price")}
    ).with_columns(
        url=pl.format("https://www.nexmark.com/item.htm?query={}&x=abcdefghijkl", "auction"),
        channel=pl.format("channel-{}", pl.col("auction") % 1000),
        __time=pl.col("auction").cast(pl.Datetime("us", "UTC")),
    )  # fmt: skip


async def receive(data: socket.socket, messages: socket.socket) -> None:
    """Take all rows, report the CPU for those of each size, then send lone rows back."""
    connection = Connection(SocketEnd(data), "the sender")
    control = ControlConnection(SocketEnd(messages), "the sender")
    for number in (*range(len(SIZES)), ECHO):
        channel = Channel(ChannelBounds())
        connection.open_receiver(number, channel)
        gate, back = InputGate([channel]), connection.open_sender(number)
        started = process_time()
        while not isinstance(element := (await gate.get())[1], EndOfStream):
            if number == ECHO and isinstance(element, Batch):
                await back.put(element)
        await control.send(process_time() - started)
        if number == ECHO:
            await back.put(EndOfStream())
    await connection.close()


async def send(data: socket.socket, messages: socket.socket) -> None:
    """Print the figures."""
    connection = Connection(SocketEnd(data), "the receiver")
    control = ControlConnection(SocketEnd(messages), "the receiver")
    for number, size in enumerate(SIZES):
        sender, frame = connection.open_sender(number), bids(size)
        await sender.put(Batch(frame))
        started, cpu_started, rows = perf_counter(), process_time(), 0
        while perf_counter() - started < SECONDS:
            await sender.put(Batch(frame))
            rows += size
        cpu_s, seconds = process_time() - cpu_started, perf_counter() - started
        await sender.put(EndOfStream())
        received_s = (await control.receive()).message
        assert isinstance(received_s, float)
        ours, theirs = cpu_s / rows * 1e6, received_s / rows * 1e6
        if size == 8192:
            print(f"exchange {ours + theirs:.3f} us")
        print(
            f"{size} rows a batch: {ours:.3f} + {theirs:.3f} us a row, "
            f"{(cpu_s) / (rows / size) * 1e6:.0f} + {received_s / (rows / size) * 1e6:.0f} us a "
            f"batch, {rows / seconds / 1e6:.2f} M rows/s",
            file=sys.stderr,
        )
    print(f"a lone row there and back: {await echo_ms(connection):.2f} ms", file=sys.stderr)
    await connection.close()
    control.close()


async def echo_ms(connection: Connection) -> float:
    """Return the median time of a lone row to the receiver and back."""
    channel, row, took = Channel(ChannelBounds()), Batch(bids(1)), []
    connection.open_receiver(ECHO, channel)
    gate, sender = InputGate([channel]), connection.open_sender(ECHO)
    for _ in range(LONE_ROWS):
        await asyncio.sleep(PAUSE_S)
        started = perf_counter()
        await sender.put(row)
        await gate.get()
        took.append((perf_counter() - started) * 1000)
    await sender.put(EndOfStream())
    while not isinstance((await gate.get())[1], EndOfStream):
        pass
    return sorted(took)[LONE_ROWS // 2]


def main() -> None:
    """Print the figures, with another process as the receiver."""
    pairs = [socket.socketpair() for _ in range(2)]
    theirs = [there.fileno() for _, there in pairs]
    command = [sys.executable, "-m", "benchmarks.exchange", *map(str, theirs)]
    with subprocess.Popen(command, pass_fds=theirs):
        for _, there in pairs:
            there.close()
        asyncio.run(send(*(here for here, _ in pairs)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(receive(*(socket.socket(fileno=int(each)) for each in sys.argv[1:])))
    else:
        main()
