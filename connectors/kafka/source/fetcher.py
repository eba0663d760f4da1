"""Fetches: one in flight to each broker that leads partitions from which more is wanted.

A response is only parsed as far as the next fetch requires, and a small one delays it
(`fetch_spacing`). After any error of a partition, its leader is looked up again, because it may
have moved. A permanent error is raised where records are awaited (`failure`).
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from aiokafka.errors import KafkaError, TopicAuthorizationFailedError
from aiokafka.protocol.fetch import FetchRequest

from headrace.connectors.kafka.errors import (
    OUT_OF_RANGE,
    build_error,
    describe_error,
    is_transient,
    translate_error,
)
from headrace.connectors.kafka.retry import RequestBackoff, RequestRetry
from headrace.connectors.kafka.source.cluster_requests import READ_COMMITTED, bootstrap_again
from headrace.connectors.kafka.source.fetch_spacing import FetchSpacing
from headrace.connectors.kafka.source.leaders import LeaderLookup
from headrace.connectors.kafka.source.missing_offsets import (
    MissingOffsetPolicy,
    build_changed_record_error,
)
from headrace.connectors.kafka.source.partition_state import (
    FetchedPartition,
    PartitionState,
    RecordChanged,
)
from headrace.connectors.kafka.source.positions import Partition
from headrace.core.api.failures import ConnectorError
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from aiokafka.client import AIOKafkaClient

MAX_PARTITION_BYTES = 1 << 20
MAX_FETCH_BYTES = 16 << 20
LONG_WAIT_MS = 500
"""Milliseconds that a broker waits for a first record."""
SHORT_WAIT_MS = 20
"""The same if a partition is left out of the fetch, but will be wanted soon."""


class FetchResponse(Protocol):
    """A fetch response of aiokafka, of any version."""

    API_VERSION: int
    topics: Iterable[tuple[str, Iterable[tuple[Any, ...]]]]


@dataclass(frozen=True, slots=True)
class FetchConnection:
    """The client for fetches, the lookup of leaders, and the policy for missing offsets."""

    client: AIOKafkaClient
    leader_lookup: LeaderLookup
    missing_offset_policy: MissingOffsetPolicy


@dataclass(slots=True)
class Fetcher:
    """Fetches for the partitions of one split reader; `on_change` is called after events."""

    list_partitions: Callable[[], Collection[PartitionState]]
    """Returns the partitions that are still read."""
    is_wanted: Callable[[PartitionState], bool]
    on_change: Callable[[], None]
    isolation: int
    retry: RequestRetry
    connect: Callable[[], Awaitable[FetchConnection]]
    failure: Exception | None = None
    _connection: FetchConnection | None = None
    _tasks: dict[object, asyncio.Task[None]] = field(default_factory=dict)
    _pauses: RequestBackoff = field(default_factory=RequestBackoff)
    _needs_pause: bool = False
    _turn: int = 0
    _delays: dict[int, asyncio.TimerHandle] = field(default_factory=dict)
    """The brokers that have answered with few records, until the next fetch may be sent."""
    _spacings: defaultdict[int, FetchSpacing] = field(
        default_factory=lambda: defaultdict(FetchSpacing)
    )
    _missing: set[Partition] = field(default_factory=set)
    """Partitions whose next records are missing; resolved once all their chunks are emitted."""

    def start_requests(self) -> None:
        """Start all requests that are possible now, without waiting."""
        if self.failure is not None:
            return
        tracks = self.list_partitions()
        if any(track.leader is None for track in tracks) and "leaders" not in self._tasks:
            self._start_task("leaders", self._find_leaders())
        by_node: dict[int, list[PartitionState]] = {}
        for track in tracks:
            at = track.partition
            if at in self._missing and at not in self._tasks and track.is_settled:
                self._start_task(at, self._resolve_missing(track))
            if track.leader is not None and not track.is_fetched:
                by_node.setdefault(track.leader, []).append(track)
        for node, led in by_node.items():
            if node not in self._tasks and node not in self._delays:
                wanted = [track for track in led if self._is_wanted(track)]
                if wanted:
                    wait_ms = LONG_WAIT_MS if len(wanted) == len(led) else SHORT_WAIT_MS
                    self._start_task(node, self._send_fetch(node, wanted, wait_ms))

    def _is_wanted(self, track: PartitionState) -> bool:
        return (
            not track.has_waiting and track.partition not in self._missing and self.is_wanted(track)
        )

    def _start_task(self, key: object, work: Coroutine[object, object, None]) -> None:
        self._tasks[key] = task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._on_task_done(key, task))

    def _on_task_done(self, key: object, task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and self.failure is None:
            self.failure = error if isinstance(error, Exception) else RuntimeError(str(error))
        self.on_change()

    async def _find_leaders(self) -> None:
        """Find the unknown leaders, after a pause if there was an error."""
        if self._needs_pause:
            await self._pauses.pause()
        if self._connection is None:
            self._connection = await self.connect()
        elif self.retry.outage.is_reported:
            await bootstrap_again(self._connection.client)
        lost = [track for track in self.list_partitions() if track.leader is None]
        found = await self._connection.leader_lookup.find_leaders(
            {track.partition for track in lost}
        )
        for track in lost:
            track.leader = found.get(track.partition)
        self._needs_pause = len(found) < len(lost)

    async def _send_fetch(self, node: int, tracks: list[PartitionState], wait_ms: int) -> None:
        assert self._connection is not None
        tracks.sort(key=lambda track: track.turn_number)
        offsets = {track.partition: track.next_fetch_offset for track in tracks}
        topics: list[tuple[str, list[tuple[int, int, int]]]] = []
        for (topic, number), offset in offsets.items():
            if not topics or topics[-1][0] != topic:
                topics.append((topic, []))
            topics[-1][1].append((number, offset, MAX_PARTITION_BYTES))
        request = FetchRequest(wait_ms, 1, MAX_FETCH_BYTES, self.isolation, topics)
        spacing = self._spacings[node]
        spacing.start_fetch(asyncio.get_running_loop().time(), time.process_time())
        try:
            answer = await self.retry.watch_request(self._connection.client.send(node, request))
        except KafkaError:
            self._lose_leaders(tracks)
            return
        size = self._handle_response(answer, {track.partition: track for track in tracks}, offsets)
        self._delay_fetch(node, spacing.compute_next(size, time.process_time()))

    def _delay_fetch(self, node: int, until: float) -> None:
        """Send nothing to this broker until that time of the loop."""
        loop = asyncio.get_running_loop()
        if until > loop.time():
            self._delays[node] = loop.call_at(until, self._end_delay, node)

    def _end_delay(self, node: int) -> None:
        del self._delays[node]
        self.start_requests()

    def _handle_response(
        self,
        answer: FetchResponse,
        tracks: dict[Partition, PartitionState],
        offsets: dict[Partition, int],
    ) -> int:
        """Add the records to their partitions; return the number of bytes."""
        now, size = asyncio.get_running_loop().time(), 0
        for topic, partitions in answer.topics:
            for number, code, *rest in partitions:
                track = tracks[Partition(topic, number)]
                if track.next_fetch_offset != offsets[track.partition]:
                    continue  # The partition has moved to another offset meanwhile.
                if not code:
                    fetched = _parse_partition(rest, self.isolation, answer.API_VERSION)
                    self._add_records(track, fetched, now)
                    size += len(fetched.data)
                else:
                    self._handle_error(track, code)
        return size

    def _add_records(self, track: PartitionState, answer: FetchedPartition, now: float) -> None:
        try:
            if track.add_response(answer, now):
                self._turn += 1
                track.turn_number = self._turn
        except RecordChanged as other:
            raise build_changed_record_error(track, other) from None
        self._pauses.reset()

    def _handle_error(self, track: PartitionState, code: int) -> None:
        error = build_error(code)
        if code == OUT_OF_RANGE and track.checks_last_record:
            track.checks_last_record = False  # The last record may have been deleted.
        elif code == OUT_OF_RANGE:
            self._missing.add(track.partition)
        elif isinstance(error, TopicAuthorizationFailedError):
            raise translate_error(error, f'read topic "{track.partition.topic}"')
        elif is_transient(error):
            self._lose_leaders([track])
        else:
            raise ConnectorError(
                f"the partition cannot be read: {describe_error(error)}",
                split=track.split.name,
                position=track.position.stored_form,
            )

    def _lose_leaders(self, tracks: Iterable[PartitionState]) -> None:
        for track in tracks:
            track.lose_leader()
            track.leader = None
        self._needs_pause = True

    async def _resolve_missing(self, track: PartitionState) -> None:
        try:
            if self._connection is not None and track.leader is not None:
                await self._connection.missing_offset_policy.resolve_partition(track)
        finally:
            self._missing.discard(track.partition)

    async def close(self) -> None:
        """Cancel requests in flight, and close the client."""
        for delay in self._delays.values():
            delay.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connection is not None:
            await self._connection.client.close()


def _parse_partition(rest: Sequence[Any], isolation: int, version: int) -> FetchedPartition:
    """Parse the fields after partition and error, for all versions from 4 on."""
    aborted = rest[3] if version >= 11 else rest[-2]
    return FetchedPartition(
        high_watermark=rest[0],
        last_stable_offset=rest[1],
        aborted_transactions=(aborted or ()) if isolation == READ_COMMITTED else None,
        data=rest[-1] or b"",
    )
