"""A proxy between a job and its broker, which loses or delays some requests, as networks do.

A request is lost, or its response; or it arrives late, after the sender has retried over another
connection. This distinguishes a protocol that tolerates retries from one that mostly works.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from random import Random
from typing import Literal, TypeAlias

from tests.support.kafka.broker import HOST, PLAINTEXT, Broker, free_ports

Harm: TypeAlias = Literal["", "cut", "unheard", "late", "slow"]
"""The connection ends before the request has gone through, or before its answer; or the request
goes through after that; or it takes its time."""

OTHERS: Mapping[int, float] = {0: 0.01, 1: 0.002}
"""Produce and Fetch."""
INITIALISE = 22
TRANSACTIONS = (INITIALISE, 24, 26)
"""InitProducerId, AddPartitionsToTxn, EndTxn."""
HARMS: tuple[Harm, ...] = ("cut", "unheard", "late", "slow")


class Proxied(Broker):
    """A broker that is also reached through a proxy, which is there while it is a context."""

    def __enter__(self) -> Proxied:
        super().__enter__()
        return self

    @property
    def through(self) -> str:
        """The address of the proxy."""
        return f"{HOST}:{self.port}"

    def _addresses(self) -> dict[str, str]:
        found = super()._addresses()
        proxied, before = f"PROXIED://{self.at('PROXIED')}", f"PROXIED://{self.through}"
        advertised = found["advertised.listeners"].replace(proxied, before)
        return found | {"advertised.listeners": advertised}

    @property
    def port(self) -> int:
        """Of the proxy; the same for all of its lives."""
        if not hasattr(self, "_port"):
            self._port = free_ports(["PROXY"])["PROXY"]
        return self._port


LISTENERS: Mapping[str, str] = {**PLAINTEXT, "PROXIED": "PLAINTEXT"}


def harmless(kind: int) -> Harm:
    """A network that works."""
    return ""


def at_random(chance: Random) -> Callable[[int], Harm]:
    """Harm to a few; those that matter most are met most often.

    Whether a broker is there is asked once, at the start, and who hears nothing then goes away.
    """

    def decide(kind: int) -> Harm:
        often = 0.03 if kind in TRANSACTIONS else OTHERS.get(kind, 0.0)
        return chance.choice(HARMS) if chance.random() < often else ""

    return decide


@contextmanager
def between(broker: Proxied, decide: Callable[[int], Harm], late_s: float = 2.0) -> Iterator[None]:
    """Have one in front of the broker; `decide` says what becomes of a kind of request."""

    def serve(client: socket.socket) -> None:
        at = (HOST, broker.ports["PROXIED"])
        with suppress(OSError, EOFError), closing(client), socket.create_connection(at) as server:
            while pass_on(client, server, decide, late_s):
                pass

    def listen() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    with socket.create_server((HOST, broker.port)) as listening:
        threading.Thread(target=listen, daemon=True).start()
        try:
            yield
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)


def pass_on(
    client: socket.socket, server: socket.socket, decide: Callable[[int], Harm], late_s: float
) -> bool:
    """One request, and its answer; whether more may come."""
    request = message(client)
    harm = decide(struct.unpack_from(">h", request, 4)[0])
    if harm == "cut":
        return False
    if harm in ("late", "slow"):
        if harm == "late":
            client.close()
        time.sleep(Random().uniform(0, late_s))
    server.sendall(request)
    answer = message(server)
    if harm in ("late", "unheard"):
        return False
    client.sendall(answer)
    return True


def message(of: socket.socket) -> bytes:
    """A request or an answer, with its length before it."""
    head = exactly(of, 4)
    return head + exactly(of, struct.unpack(">i", head)[0])


def exactly(of: socket.socket, size: int) -> bytes:
    """Read exactly that number of bytes."""
    found = bytearray()
    while len(found) < size:
        piece = of.recv(size - len(found))
        if not piece:
            raise EOFError
        found += piece
    return bytes(found)
