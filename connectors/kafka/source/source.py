"""The Kafka source: each partition a split, assigned by headrace, not by a consumer group."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from aiokafka.errors import KafkaError

from headrace.connectors.kafka.connection import build_outage, connect_client
from headrace.connectors.kafka.errors import describe_error
from headrace.connectors.kafka.retry import OutageReports, RequestRetry
from headrace.connectors.kafka.source.cluster_requests import ClusterRequests
from headrace.connectors.kafka.source.discovery import PartitionDiscovery
from headrace.connectors.kafka.source.positions import (
    Partition,
    PartitionPosition,
    parse_partition,
    parse_position,
)
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.api.failures import ConnectorError
from headrace.core.api.run_context import RunContext
from headrace.core.api.splits import Progress, Split
from headrace.core.api.state import Document
from headrace.core.types.lazy_dataclass import dataclass

START_TIMEOUT_S = 10.0
"""Seconds for the first discovery; later ones wait until brokers are reachable."""
COMMIT_TIMEOUT_S = 5.0


@dataclass(slots=True)
class TopicSource:
    """The `SourceCoordinator` over partitions of topics."""

    name: str
    options: KafkaSource
    run_context: RunContext
    _cluster: ClusterRequests | None = None
    _open_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _start_positions: dict[Partition, PartitionPosition] = field(default_factory=dict)
    """The start positions of all discovered partitions."""
    _skipped: int = 0
    """The number of records without a value."""
    _reported: set[str] = field(default_factory=set)
    """The kinds of messages reported already; each is reported once."""
    _retry: RequestRetry = field(init=False)
    _outages: OutageReports = field(init=False)

    def __post_init__(self) -> None:
        notify_user = self.run_context.notify_user
        self._outages = OutageReports(notify_user)
        outage = build_outage(self.name, self.options)
        self._retry = RequestRetry(outage, notify_user, self._outages.report)

    @property
    def discovery_interval_s(self) -> float | None:
        """Seconds between discoveries, as the pipeline says; None if reading stops."""
        if self.options.stop is not None or self.options.discover is None:
            return None
        return self.options.discover.total_seconds()

    async def discover_splits(self, first: bool) -> Sequence[Split]:
        """List a split for each partition. Raises ConnectorError."""
        begins = self._cluster is None
        cluster = await self._connect_cluster()
        discovery = PartitionDiscovery(self.options, cluster, skips_missing=not begins)
        look = partial(self._discover_new, discovery, first)
        what = f"look for {self.options.topics_text}"
        await cluster.retry_work(look, what, START_TIMEOUT_S if begins else None)
        if not self._start_positions:
            self._handle_no_topics()
        return [
            Split(self.name, str(partition), start_position=place.stored_form)
            for partition, place in sorted(self._start_positions.items())
        ]

    async def restore(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """Return the same positions, with the stop offsets of the current pipeline."""
        if self.options.stop is None:
            return {split: _remove_stop(progress) for split, progress in splits.items()}
        places = {
            parse_partition(split.name): parse_position(progress.position)
            for split, progress in splits.items()
        }
        open_ = {partition: place for partition, place in places.items() if place.stop is None}
        await self.discover_splits(first=False)
        assert self._cluster is not None
        discovery = PartitionDiscovery(self.options, self._cluster)

        async def look() -> None:
            places.update(
                await discovery.update_stop_offsets(open_, await discovery.discover_partitions())
            )

        if open_:
            await self._cluster.retry_work(
                look, f"look for {self.options.topics_text}", START_TIMEOUT_S
            )
        return {
            split: replace(progress, position=places[parse_partition(split.name)].stored_form)
            for split, progress in splits.items()
        }

    async def _connect_cluster(self) -> ClusterRequests:
        """Connect on first use. Raises ConnectorError if no broker is reachable at the start."""
        async with self._open_lock:
            if self._cluster is None:
                client = await connect_client(self.options, self.run_context.folder)
                self._cluster = ClusterRequests(client, self._retry)
        return self._cluster

    async def _discover_new(self, discovery: PartitionDiscovery, first: bool) -> None:
        found = await discovery.discover_partitions()
        if first:
            discovery.check_bounds(found)
        new = {each: leader for each, leader in found.items() if each not in self._start_positions}
        self._start_positions |= await discovery.find_start_positions(first, new)

    def _handle_no_topics(self) -> None:
        """Handle a pattern without topics: an error, unless topics may be discovered later."""
        if self.discovery_interval_s is None:
            raise ConnectorError(
                f"there are no {self.options.topics_text}",
                "a pattern must match the whole name",
                final=True,
            )
        self._notify_once("nothing", f"there are no {self.options.topics_text} yet, waiting")

    async def describe_for_workers(self) -> Document:
        """Return nothing."""
        return {}

    async def answer(self, request: Document) -> Document:
        """Show an outage, or count records without a value, which readers have left out."""
        if "outage" in request:
            self._outages.report_request(request)
            return {}
        self._skipped += int(str(request["skipped"]))
        self._notify_once("null", "records without a row are left out")
        return {}

    async def on_checkpoint_complete(self, splits: Mapping[Split, Progress]) -> None:
        """Commit positions to the group, for tools that show lag; a failure is only reported."""
        offsets = {
            parse_partition(split.name): parse_position(progress.position).offset
            for split, progress in splits.items()
            if progress.position is not None
        }
        if not offsets or self._cluster is None:
            return
        commit = partial(self._cluster.commit_offsets, self.group_id, offsets)
        try:
            await self._retry.retry_request(commit, within_s=COMMIT_TIMEOUT_S)
        except KafkaError as error:
            self._notify_once(
                "group",
                f"positions are not committed to the group {self.group_id} "
                f"({describe_error(error)}): tools "
                "show no lag, nothing else depends on it",
            )

    def _notify_once(self, what: str, line: str) -> None:
        if what not in self._reported:
            self._reported.add(what)
            self.run_context.notify_user(f"{self.name}: {line}")

    @property
    def group_id(self) -> str:
        """The consumer group to which positions are committed."""
        if self.options.group is not None:
            return self.options.group.reveal()
        return f"headrace-{self.run_context.pipeline_name}-{self.name}"

    async def close(self) -> None:
        """Close the source's connections, and report the number of records left out."""
        if self._skipped:
            records = f"{self._skipped:,} record{'s' if self._skipped > 1 else ''}"
            self.run_context.notify_user(f"{self.name}: {records} without a row left out in total")
            self._skipped = 0
        if self._cluster is not None:
            await self._cluster.client.close()


def _remove_stop(progress: Progress) -> Progress:
    """Remove the stop offset that an earlier run had."""
    place = parse_position(progress.position)
    if place.stop is None:
        return progress
    return replace(progress, position=replace(place, stop=None).stored_form, is_finished=False)
