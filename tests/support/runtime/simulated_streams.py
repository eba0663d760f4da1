"""Streams between simulated processes: bytes are late, cut at any place, and lost with an end."""

from __future__ import annotations

import errno
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from typing import TypeAlias

from headrace.core.exchange.stream_end import StreamEnd
from tests.support.runtime.actor_loop import ACTOR, Actor, ActorLoop

ROOM_BYTES = 100_000
"""The bytes that may be on their way."""
CUTS = (1, 40, 700, ROOM_BYTES, ROOM_BYTES, ROOM_BYTES)
DELAYS_S = (0.0, 0.0, 0.001, 0.05)
LONG_DELAY_S = 1.0
Callback: TypeAlias = "tuple[Callable[[], None], Context]"


class SimulatedStreams:
    """All streams of a simulation."""

    def __init__(self, loop: ActorLoop, chance: random.Random) -> None:
        self.loop = loop
        self.random = chance
        self.delays_s: Sequence[float] = DELAYS_S
        """The usual delays, of which each end has one."""
        self.pairs: list[tuple[SimulatedEnd, SimulatedEnd]] = []

    def open_pair(self) -> tuple[SimulatedEnd, SimulatedEnd]:
        """Return the two ends of a new stream, which belong to the current process."""
        one, other = SimulatedEnd(self), SimulatedEnd(self)
        one.peer, other.peer = other, one
        self.pairs = [pair for pair in self.pairs if not (pair[0].is_closed and pair[1].is_closed)]
        self.pairs.append((one, other))
        return one, other

    def close_all_of(self, actor: Actor) -> None:
        """Close the ends of a process."""
        for pair in self.pairs:
            for end in pair:
                if end.owner is actor:
                    end.close()

    def break_one(self) -> None:
        """Break one of the streams whose ends both live, mostly one between workers."""
        living = [pair for pair in self.pairs if not pair[0].is_closed and not pair[1].is_closed]
        rows = [pair for pair in living if all(is_worker(end.owner) for end in pair)]
        if living:
            for end in self.random.choice(rows or living):
                end.lose_peer()


def is_worker(actor: Actor | None) -> bool:
    """Whether a process is a worker."""
    return actor is not None and actor.name.startswith("worker")


class SimulatedEnd:
    """One end of a stream."""

    peer: SimulatedEnd

    def __init__(self, streams: SimulatedStreams) -> None:
        self.is_closed = False
        self.owner = ACTOR.get()
        self._streams = streams
        self._loop = streams.loop
        self._random = streams.random
        self._delay_s = self._random.choice(streams.delays_s)
        self._is_broken = False
        self._under_way = 0
        """The bytes that were sent, and that the peer has not received."""
        self._last_arrival = 0.0
        self._arrived: deque[tuple[bytes, Sequence[StreamEnd]]] = deque()
        self._end: OSError | None = None
        self._is_ended = False
        """Whether nothing more arrives; `_end` is the error that comes first, if there is one."""
        self._on_arrival: Callback | None = None
        self._on_room: Callback | None = None
        self._is_arrival_posted = self._is_room_posted = False

    def send(self, data: memoryview, ends: Sequence[StreamEnd] = ()) -> int:
        if self.is_closed:
            raise OSError(errno.EBADF, "closed")
        if self._is_broken or self.peer.is_closed:
            raise BrokenPipeError
        room = ROOM_BYTES - self._under_way
        if room <= 0 or self._random.random() < 0.05:
            raise BlockingIOError
        count = min(len(data), room, self._random.choice(CUTS))
        for end in ends:
            assert isinstance(end, SimulatedEnd)
            end.owner = None
        self._under_way += count
        piece = bytes(data[:count])
        self._later(lambda: self.peer._receive_piece(piece, ends))
        return count

    def receive_into(self, space: memoryview) -> int:
        data, _ = self.receive(len(space))
        space[: len(data)] = data
        return len(data)

    def receive(self, size: int) -> tuple[bytes, Sequence[StreamEnd]]:
        if not self._arrived:
            if self._end is not None:
                error, self._end = self._end, None
                raise error
            if self._is_ended:
                return b"", ()
            raise BlockingIOError
        data, ends = self._arrived.popleft()
        if len(data) > size:
            self._arrived.appendleft((data[size:], ()))
            data = data[:size]
        for end in ends:
            assert isinstance(end, SimulatedEnd)
            end.owner = ACTOR.get()
        self.peer._under_way -= len(data)
        self.peer._post_room()
        return data, ends

    def watch_arrivals(self, on_arrival: Callable[[], None]) -> None:
        self.owner = ACTOR.get()
        self._on_arrival = on_arrival, copy_context()
        self._post_arrival()

    def watch_room(self, on_room: Callable[[], None] | None) -> None:
        self._on_room = None if on_room is None else (on_room, copy_context())
        self._post_room()

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._on_arrival = self._on_room = None
        error = ConnectionResetError() if self._arrived else None
        for _, ends in self._arrived:
            for end in ends:
                end.close()
        self._arrived.clear()
        self._later(lambda: self.peer._receive_end(error))
        self.peer._post_room()

    def lose_peer(self) -> None:
        """Break the connection here: what is under way is lost."""
        self._is_broken = True
        self._receive_end(self._random.choice([ConnectionResetError(), None]))
        self._post_room()

    def _later(self, do: Callable[[], None]) -> None:
        """Do something at the other end, in order."""
        delay_s = LONG_DELAY_S if self._random.random() < 0.01 else self._delay_s
        delay_s *= self._random.random()
        # Timers of the same time come in any order.
        self._last_arrival = max(self._last_arrival + 1e-6, self._loop.time() + delay_s)
        self._loop.call_at(self._last_arrival, do, context=Context())

    def _receive_piece(self, piece: bytes, ends: Sequence[StreamEnd]) -> None:
        if self.is_closed or self._is_broken:
            for end in ends:
                end.close()
        else:
            self._arrived.append((piece, ends))
            self._post_arrival()

    def _receive_end(self, error: OSError | None) -> None:
        if not self._is_ended:
            self._is_ended, self._end = True, error
            self._post_arrival()

    def _post_arrival(self) -> None:
        has_arrivals = bool(self._arrived) or self._is_ended
        if self._on_arrival is not None and has_arrivals and not self._is_arrival_posted:
            self._is_arrival_posted = True
            self._loop.call_soon(self._call_arrival, context=self._on_arrival[1])

    def _call_arrival(self) -> None:
        self._is_arrival_posted = False
        if self._on_arrival is not None:
            self._on_arrival[0]()
            self._post_arrival()

    def _post_room(self) -> None:
        has_room = self._under_way < ROOM_BYTES or self._is_broken or self.peer.is_closed
        if self._on_room is not None and has_room and not self._is_room_posted:
            self._is_room_posted = True
            self._loop.call_soon(self._call_room, context=self._on_room[1])

    def _call_room(self) -> None:
        self._is_room_posted = False
        if self._on_room is not None:
            self._on_room[0]()
            self._post_room()
