"""Fetches: one in flight to each broker that leads partitions from which more is wanted.

A response is only parsed as far as the next fetch requires. After any error of a partition, its
leader is looked up again, because it may have moved. A permanent error is raised where records are
awaited (`failure`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from aiokafka.errors import KafkaError, TopicAuthorizationFailedError
from aiokafka.protocol.fetch import FetchRequest

from headrace.connectors.kafka.errors import OUT_OF_RANGE, of_code, passes, refusal, said
from headrace.connectors.kafka.patience import Patience, Pauses
from headrace.connectors.kafka.source.cluster import COMMITTED, found_again
from headrace.connectors.kafka.source.leaders import Leaders
from headrace.connectors.kafka.source.missing import Missing, other_record
from headrace.connectors.kafka.source.places import Partition
from headrace.connectors.kafka.source.tracks import Answer, OtherRecord, Track
from headrace.core.contracts import ConnectorError

if TYPE_CHECKING:
    from aiokafka.client import AIOKafkaClient

PARTITION_BYTES = 1 << 20
FETCH_BYTES = 16 << 20
LONG_MS = 500
"""Milliseconds that a broker waits for a first record."""
SHORT_MS = 20
"""The same if a partition is left out of the fetch, but will be wanted soon."""


class FetchAnswer(Protocol):
    """A fetch response of aiokafka, of any version."""

    API_VERSION: int
    topics: Iterable[tuple[str, Iterable[tuple[Any, ...]]]]


@dataclass(frozen=True, slots=True)
class Reach:
    """The client for fetches, the lookup of leaders, and the policy for missing offsets."""

    client: AIOKafkaClient
    leaders: Leaders
    missing: Missing


@dataclass(slots=True)
class Fetching:
    """Fetches for the partitions of one split reader; `changed` is called after each event."""

    tracks: Callable[[], Collection[Track]]
    """Returns the partitions that are still read."""
    wanted: Callable[[Track], bool]
    changed: Callable[[], None]
    isolation: int
    patience: Patience
    opened: Callable[[], Awaitable[Reach]]
    failure: Exception | None = None
    _reach: Reach | None = None
    _tasks: dict[object, asyncio.Task[None]] = field(default_factory=dict)
    _pauses: Pauses = field(default_factory=Pauses)
    _troubled: bool = False
    _turn: int = 0
    _busy: set[Partition] = field(default_factory=set)
    """Partitions whose next records are missing; resolved once all their chunks are emitted."""

    def go_on(self) -> None:
        """Start all requests that are possible now, without waiting."""
        if self.failure is not None:
            return
        tracks = self.tracks()
        if any(track.leader is None for track in tracks) and "leaders" not in self._tasks:
            self._begin("leaders", self._find())
        by_node: dict[int, list[Track]] = {}
        for track in tracks:
            at = track.partition
            if at in self._busy and at not in self._tasks and track.is_settled:
                self._begin(at, self._resolve(track))
            if track.leader is not None and not track.is_through:
                by_node.setdefault(track.leader, []).append(track)
        for node, led in by_node.items():
            if node not in self._tasks:
                asked = [track for track in led if self._is_wanted(track)]
                if asked:
                    wait_ms = LONG_MS if len(asked) == len(led) else SHORT_MS
                    self._begin(node, self._fetch(node, asked, wait_ms))

    def _is_wanted(self, track: Track) -> bool:
        return not track.waits and track.partition not in self._busy and self.wanted(track)

    def _begin(self, key: object, work: Coroutine[object, object, None]) -> None:
        self._tasks[key] = task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._done(key, task))

    def _done(self, key: object, task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and self.failure is None:
            self.failure = error if isinstance(error, Exception) else RuntimeError(str(error))
        self.changed()

    async def _find(self) -> None:
        """Find the unknown leaders, after a pause if there was an error."""
        if self._troubled:
            await self._pauses.pause()
        if self._reach is None:
            self._reach = await self.opened()
        elif self.patience.outage.told:
            await found_again(self._reach.client)
        lost = [track for track in self.tracks() if track.leader is None]
        found = await self._reach.leaders.find({track.partition for track in lost})
        for track in lost:
            track.leader = found.get(track.partition)
        self._troubled = len(found) < len(lost)

    async def _fetch(self, node: int, asked: list[Track], wait_ms: int) -> None:
        assert self._reach is not None
        asked.sort(key=lambda track: track.turn)
        offsets = {track.partition: track.next_fetch for track in asked}
        topics: list[tuple[str, list[tuple[int, int, int]]]] = []
        for (topic, number), offset in offsets.items():
            if not topics or topics[-1][0] != topic:
                topics.append((topic, []))
            topics[-1][1].append((number, offset, PARTITION_BYTES))
        request = FetchRequest(wait_ms, 1, FETCH_BYTES, self.isolation, topics)
        try:
            answer = await self.patience.watched(self._reach.client.send(node, request))
        except KafkaError:
            self._lose(asked)
            return
        self._take(answer, {track.partition: track for track in asked}, offsets)

    def _take(
        self, answer: FetchAnswer, asked: dict[Partition, Track], offsets: dict[Partition, int]
    ) -> None:
        now = asyncio.get_running_loop().time()
        for topic, partitions in answer.topics:
            for number, code, *rest in partitions:
                track = asked[Partition(topic, number)]
                if track.next_fetch != offsets[track.partition]:
                    continue  # The partition has moved to another offset meanwhile.
                if not code:
                    self._came(track, _answer(rest, self.isolation, answer.API_VERSION), now)
                else:
                    self._refused(track, code)

    def _came(self, track: Track, answer: Answer, now: float) -> None:
        try:
            if track.came(answer, now):
                self._turn += 1
                track.turn = self._turn
        except OtherRecord as other:
            raise other_record(track, other) from None
        self._pauses.reset()

    def _refused(self, track: Track, code: int) -> None:
        error = of_code(code)
        if code == OUT_OF_RANGE and track.asks_for_last:
            track.asks_for_last = False  # The last record may have been deleted.
        elif code == OUT_OF_RANGE:
            self._busy.add(track.partition)
        elif isinstance(error, TopicAuthorizationFailedError):
            raise refusal(error, f'read topic "{track.partition.topic}"')
        elif passes(error):
            self._lose([track])
        else:
            raise ConnectorError(
                f"the partition cannot be read: {said(error)}",
                split=track.split.name,
                position=track.place.position,
            )

    def _lose(self, tracks: Iterable[Track]) -> None:
        for track in tracks:
            track.lost()
            track.leader = None
        self._troubled = True

    async def _resolve(self, track: Track) -> None:
        try:
            if self._reach is not None and track.leader is not None:
                await self._reach.missing.resolve(track)
        finally:
            self._busy.discard(track.partition)

    async def close(self) -> None:
        """Cancel requests in flight, and close the client."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._reach is not None:
            await self._reach.client.close()


def _answer(rest: Sequence[Any], isolation: int, version: int) -> Answer:
    """Parse the fields after partition and error, for all versions from 4 on."""
    aborted = rest[3] if version >= 11 else rest[-2]
    return Answer(
        high_watermark=rest[0],
        stable=rest[1],
        aborted=(aborted or ()) if isolation == COMMITTED else None,
        data=rest[-1] or b"",
    )
