"""A process that sends back what arrives on channels 0 and 1 of the socket that it inherits."""

from __future__ import annotations

import asyncio
import socket
import sys

from headrace.core.dataflow.channel import Channel, ChannelBounds
from headrace.core.dataflow.input_gate import InputGate
from headrace.core.exchange.connection import Connection
from headrace.core.exchange.stream_end import SocketEnd
from headrace.core.types.elements import EndOfStream


async def echo(connection: Connection, number: int) -> None:
    """Send back all elements of a channel."""
    channel, sender = Channel(ChannelBounds(rows=1000)), connection.open_sender(number)
    connection.open_receiver(number, channel)
    gate = InputGate([channel])
    element = None
    while not isinstance(element, EndOfStream):
        _, element = await gate.get()
        await sender.put(element)


async def main() -> None:
    connection = Connection(SocketEnd(socket.socket(fileno=int(sys.argv[1]))), "worker 1")
    await asyncio.gather(echo(connection, 0), echo(connection, 1))
    await connection.close()


asyncio.run(main())
