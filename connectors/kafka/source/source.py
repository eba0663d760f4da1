"""The Kafka source: each partition a split, assigned by headrace, not by a consumer group."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from aiokafka.errors import KafkaError

from headrace.connectors.kafka.connection import connected, outage
from headrace.connectors.kafka.errors import said
from headrace.connectors.kafka.patience import Patience, Pauses
from headrace.connectors.kafka.source.chunks import Maker
from headrace.connectors.kafka.source.cluster import COMMITTED, UNCOMMITTED, Cluster
from headrace.connectors.kafka.source.discovery import Discovery
from headrace.connectors.kafka.source.fetching import Fetching, Reach
from headrace.connectors.kafka.source.leaders import Leaderless, Leaders
from headrace.connectors.kafka.source.limit import Limit
from headrace.connectors.kafka.source.missing import Missing
from headrace.connectors.kafka.source.places import Partition, Place, partition_of, place_at
from headrace.connectors.kafka.source.reading import Partitions
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.contracts import ConnectorError, Reading, Surroundings
from headrace.core.messages import Progress, Split

START_S = 10.0
"""Seconds for the first discovery; later ones wait until brokers are reachable."""
COMMIT_S = 5.0


@dataclass(slots=True)
class Topics:
    """The `SourceConnector` over partitions of topics."""

    name: str
    options: KafkaSource
    surroundings: Surroundings
    maker: Maker
    ordered: bool = False
    _cluster: Cluster | None = None
    _leaders: Leaders | None = None
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _places: dict[Partition, Place] = field(default_factory=dict)
    """The start positions of all discovered partitions."""
    _limit: Limit = field(init=False)
    _skipped: int = 0
    """The number of records without a value."""
    _told: set[str] = field(default_factory=set)
    """The kinds of messages reported already; each is reported once."""
    _patience: Patience = field(init=False)

    def __post_init__(self) -> None:
        self._limit = Limit(self.surroundings.limit)
        self._patience = Patience(outage(self.name, self.options), self.surroundings.tell)

    @property
    def rediscover_s(self) -> float | None:
        """Seconds between discoveries, as the pipeline says; None if reading stops."""
        if self.options.stop is not None or self.options.discover is None:
            return None
        return self.options.discover.total_seconds()

    async def discover(self, first: bool) -> Sequence[Split]:
        """List a split for each partition. Raises ConnectorError."""
        begins = self._cluster is None
        cluster = await self._opened()
        discovery = Discovery(self.options, cluster, lenient=not begins)
        look = partial(self._look, discovery, first)
        what = f"look for {self.options.which}"
        await cluster.persist(look, what, START_S if begins else None)
        if not self._places:
            self._nothing()
        return [
            Split(self.name, str(partition), start=place.position)
            for partition, place in sorted(self._places.items())
        ]

    async def resumed(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """Return the same positions, with the stop offsets of the current pipeline."""
        if self.options.stop is None:
            return {split: _endless(progress) for split, progress in splits.items()}
        places = {
            partition_of(split.name): place_at(progress.position)
            for split, progress in splits.items()
        }
        open_ = {partition: place for partition, place in places.items() if place.stop is None}
        await self.discover(first=False)
        assert self._cluster is not None
        discovery = Discovery(self.options, self._cluster)

        async def look() -> None:
            places.update(await discovery.stopping(open_, await discovery.partitions()))

        if open_:
            await self._cluster.persist(look, f"look for {self.options.which}", START_S)
        return {
            split: replace(progress, position=places[partition_of(split.name)].position)
            for split, progress in splits.items()
        }

    async def _opened(self) -> Cluster:
        """Connect on first use. Raises ConnectorError if no broker is reachable at the start."""
        async with self._opening:
            if self._cluster is None:
                client = await connected(self.options, self.surroundings.folder)
                self._cluster = Cluster(client, self._patience)
                self._leaders = Leaders(self._cluster, Leaderless(self.name))
        return self._cluster

    async def _look(self, discovery: Discovery, first: bool) -> None:
        found = await discovery.partitions()
        if first:
            discovery.check_edges(found)
        new = {each: leader for each, leader in found.items() if each not in self._places}
        self._places |= await discovery.places(first, new)

    def _nothing(self) -> None:
        """Handle a pattern without topics: an error, unless topics may be discovered later."""
        if self.rediscover_s is None:
            raise ConnectorError(
                f"there are no {self.options.which}",
                "a pattern must match the whole name",
                final=True,
            )
        self._tell_once("nothing", f"there are no {self.options.which} yet, waiting")

    def reading(self) -> Reading:
        """Return a split reader with its own connection to each leading broker."""
        return Partitions(
            self.maker, self.surroundings.bench, self._limit, self._fetching, self._skip
        )

    def _skip(self, records: int) -> None:
        self._skipped += records
        if records:
            self._tell_once("null", "records without a value are left out")

    def _fetching(self, reading: Partitions) -> Fetching:
        committed = self.options.isolation == "read_committed"
        return Fetching(
            lambda: reading.tracks,
            reading.wants,
            reading.changed,
            COMMITTED if committed else UNCOMMITTED,
            self._patience,
            self._reach,
        )

    async def _reach(self) -> Reach:
        """Connect a client for fetches; after the first connection, wait until a broker is back."""
        cluster = await self._opened()
        assert self._leaders is not None
        missing = Missing(self.name, cluster, self.options.on_missing_offset)
        pauses = Pauses()
        while True:
            asked_s = asyncio.get_running_loop().time()
            try:
                client = await connected(self.options, self.surroundings.folder)
                return Reach(client, self._leaders, missing)
            except ConnectorError:
                self._patience.failed(asked_s)
            await pauses.pause()

    async def published(self, splits: Mapping[Split, Progress]) -> None:
        """Commit positions to the group, for tools that show lag; a failure is only reported."""
        offsets = {
            partition_of(split.name): place_at(progress.position).offset
            for split, progress in splits.items()
            if progress.position is not None
        }
        if not offsets or self._cluster is None:
            return
        commit = partial(self._cluster.commit, self.group, offsets)
        try:
            await self._patience.insist(commit, within_s=COMMIT_S)
        except KafkaError as error:
            self._tell_once(
                "group",
                f"positions are not committed to the group {self.group} ({said(error)}): tools "
                "show no lag, nothing else depends on it",
            )

    def _tell_once(self, what: str, line: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self.surroundings.tell(f"{self.name}: {line}")

    @property
    def group(self) -> str:
        """The consumer group to which positions are committed."""
        if self.options.group is not None:
            return self.options.group.reveal()
        return f"headrace-{self.surroundings.pipeline}-{self.name}"

    async def close(self) -> None:
        """Close the source's connections, and report the number of records left out."""
        if self._skipped:
            records = f"{self._skipped:,} record{'s' if self._skipped > 1 else ''}"
            self.surroundings.tell(f"{self.name}: {records} without a value left out in total")
            self._skipped = 0
        if self._cluster is not None:
            await self._cluster.client.close()


def _endless(progress: Progress) -> Progress:
    """Remove the stop offset that an earlier run had."""
    place = place_at(progress.position)
    if place.stop is None:
        return progress
    return replace(progress, position=replace(place, stop=None).position, ended=False)
