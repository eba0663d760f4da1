"""Messages between coordinator and worker, with sockets, until one of them is gone."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import typing
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields, is_dataclass

import pytest

from headrace.core.api.splits import Failure, Progress, Split, SubtaskId
from headrace.core.coordination import messages
from headrace.core.coordination.messages import (
    CommitOutput,
    Deploy,
    HeldTime,
    RestoredState,
    Snapshot,
    SubtaskFinished,
)
from headrace.core.exchange.control_connection import ControlConnection, Envelope
from headrace.core.exchange.peer_lost import PeerLost
from headrace.core.exchange.stream_end import SocketEnd, open_socket_pair
from headrace.core.types.elements import LoopMarker

SUBTASK = SubtaskId(1, 2)
SNAPSHOT = Snapshot(
    {Split("in", "0", 3, "start"): Progress(4, 5, 6, 7, True, "same")},
    {"step": ({"files": [b"\0", {"a": None}]},)},
    {"in": {"rows": 1}},
    {"path": "x"},
    {"sequence": 1},
)
VALUES: dict[str, object] = {
    "SubtaskId": SUBTASK,
    "Snapshot": SNAPSHOT,
    "tuple[Snapshot, ...]": (SNAPSHOT,),
    "RestoredState": RestoredState({"in": SNAPSHOT.splits}, SNAPSHOT.states, {"out": ({},)}),
    "Failure": Failure("message", "step", "0", 5, "hint", "trace", True, False, "here"),
    "HeldTime": HeldTime(5, is_round=True),
    "LoopMarker": LoopMarker("tries", 2, is_open=True),
    "Handle": {"path": "x"},
    "Handle | None": {"path": "x"},
    "int": 1,
    "int | None": None,
    "str": "text",
    "float": 0.5,
    "bool": True,
    "tuple[SubtaskId, ...]": (SUBTASK,),
    "frozenset[SubtaskId]": frozenset({SUBTASK}),
    "tuple[tuple[Split, Progress], ...]": tuple(SNAPSHOT.splits.items()),
    "tuple[tuple[SubtaskId, Handle], ...]": ((SUBTASK, {"path": "x"}),),
    "Mapping[SubtaskId, Snapshot]": {SUBTASK: SNAPSHOT},
}
MESSAGES = [
    *typing.get_args(messages.WorkerCommand),
    *typing.get_args(messages.CoordinatorAction),
    *typing.get_args(messages.CoordinatorEvent),
]


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[ControlConnection, ControlConnection]]:
    left, right = open_socket_pair()
    ends = ControlConnection(left, "worker 1"), ControlConnection(right, "the coordinator")
    yield ends
    for each in ends:
        each.close()


@pytest.mark.parametrize("kind", [*dict.fromkeys(MESSAGES)], ids=lambda kind: kind.__name__)
def test_every_message_passes(kind: type) -> None:
    assert is_dataclass(kind)
    message = kind(*(VALUES[str(field.type)] for field in fields(kind)))

    async def main() -> None:
        async with connected() as (coordinator, worker):
            await coordinator.send(message)
            assert await worker.receive() == Envelope(message)

    asyncio.run(main())


def test_messages_keep_their_order_and_block_nobody() -> None:
    async def main() -> None:
        async with connected() as (coordinator, worker):
            sent = [CommitOutput(SUBTASK, {"bytes": b"x" * size}) for size in (1, 10**7, 0, 10**6)]
            pending = [coordinator.post(message) for message in sent]
            assert pending[0] is None
            assert pending[1] is not None and not pending[1].done()
            drain = asyncio.create_task(coordinator.drain())
            for message in sent:
                assert (await worker.receive()).message == message
            await drain
            worker.post(SubtaskFinished(SUBTASK))
            assert (await coordinator.receive()).message == SubtaskFinished(SUBTASK)

    asyncio.run(main())


def test_sockets_travel_with_their_message() -> None:
    async def main() -> None:
        before = len(os.listdir("/dev/fd"))
        async with connected() as (coordinator, worker):
            pairs = [socket.socketpair() for _ in range(40)]
            ends = [SocketEnd(each) for each, _ in pairs]
            first, second = ends[:30], ends[30:]
            coordinator.post(b"x" * 10**6)  # fills the socket, so that the next ones wait
            coordinator.post(Deploy(1, (SUBTASK,)), first)
            coordinator.post("no sockets")
            coordinator.post(Deploy(2, (SUBTASK,)), second)
            arrived = [await worker.receive() for _ in range(4)]
            assert [len(each.ends) for each in arrived] == [0, 30, 0, 10]
            passed = [
                end.socket
                for envelope in arrived
                for end in envelope.ends
                if isinstance(end, SocketEnd)
            ]
            assert not any(each.get_inheritable() for each in passed)
            for number, (each, (sent, kept)) in enumerate(zip(passed, pairs, strict=True)):
                assert sent.fileno() == -1
                each.send(b"%d" % number)
                each.close()
                assert kept.recv(10) == b"%d" % number
                assert kept.recv(10) == b""
                kept.close()
        assert len(os.listdir("/dev/fd")) == before

    asyncio.run(main())


def test_sockets_that_nobody_gets_are_closed() -> None:
    async def main() -> None:
        async with connected() as (coordinator, worker):
            (lost, kept), (unread, other) = socket.socketpair(), socket.socketpair()
            await coordinator.send("read by nobody", [SocketEnd(unread)])
            await asyncio.sleep(0)
            worker.close()
            with pytest.raises(PeerLost):
                await coordinator.send("sent to nobody", [SocketEnd(lost)])
            for each in (kept, other):
                assert each.recv(1) == b""
                each.close()

    asyncio.run(main())


def test_what_was_sent_before_the_end_is_received_then_the_end() -> None:
    async def main() -> None:
        async with connected() as (coordinator, worker):
            waiting = asyncio.create_task(coordinator.receive())
            await worker.send("last words")
            worker.close()
            assert (await waiting).message == "last words"
            with pytest.raises(PeerLost, match=r"connection to worker 1 is lost: it has ended$"):
                await coordinator.receive()
            assert coordinator.post("nobody gets this") is None
            await coordinator.drain()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\1", "in the middle of a message"),
        (bytes(8) + (100).to_bytes(8, "little") + b"abc", "in the middle of a message"),
        (bytes(8) + (3).to_bytes(8, "little") + b"abc", "what it sent cannot be read"),
        (
            (1).to_bytes(8, "little") + (4).to_bytes(8, "little") + pickle.dumps(None),
            "what it sent cannot be read",
        ),
    ],
)
def test_a_broken_message_is_reported(data: bytes, reason: str) -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        coordinator = ControlConnection(SocketEnd(left), "worker 1")
        right.send(data)
        right.close()
        with pytest.raises(PeerLost, match=reason):
            await coordinator.receive()
        coordinator.close()

    asyncio.run(main())
