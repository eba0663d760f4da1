"""The worker's half of the Kafka source: its readers share a connection for metadata."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import field

from headrace.connectors.kafka.connection import build_outage, connect_client
from headrace.connectors.kafka.retry import OutageSender, RequestBackoff, RequestRetry
from headrace.connectors.kafka.source.chunk_maker import ChunkMaker
from headrace.connectors.kafka.source.cluster_requests import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    ClusterRequests,
)
from headrace.connectors.kafka.source.fetcher import FetchConnection, Fetcher
from headrace.connectors.kafka.source.leaders import LeaderlessTracker, LeaderLookup
from headrace.connectors.kafka.source.missing_offsets import MissingOffsetPolicy
from headrace.connectors.kafka.source.split_reader import PartitionSplitReader, RowLimit
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.failures import ConnectorError
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import SplitReader
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class TopicReaders:
    """The `ReaderFactory` over partitions of topics."""

    name: str
    options: KafkaSource
    run_context: RunContext
    chunk_maker: ChunkMaker
    link: CoordinatorLink
    is_ordered: bool = False
    _cluster: tuple[ClusterRequests, LeaderLookup] | None = None
    _open_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _limit: RowLimit = field(init=False)
    _skipped: int = 0
    """The number of records without a value."""
    _first_report: asyncio.Task[None] | None = None
    _retry: RequestRetry = field(init=False)

    def __post_init__(self) -> None:
        self._limit = RowLimit(self.run_context.row_limit)
        outage, sender = build_outage(self.name, self.options), OutageSender(self.link)
        self._retry = RequestRetry(outage, self.run_context.notify_user, sender.report)

    def create_reader(self) -> SplitReader:
        """Return a split reader with its own connection to each leading broker."""
        return PartitionSplitReader(
            self.chunk_maker,
            self.run_context.kernel_executor,
            self._limit,
            self._build_fetcher,
            self._count_skipped,
        )

    def _count_skipped(self, records: int) -> None:
        if records and self._first_report is None:
            self._first_report = asyncio.create_task(self._report_skipped(0))
        self._skipped += records

    async def _report_skipped(self, records: int) -> None:
        # It is for the user's information only.
        with suppress(ConnectorError):
            await self.link.request({"skipped": records})

    def _build_fetcher(self, reading: PartitionSplitReader) -> Fetcher:
        committed = self.options.isolation == "read_committed"
        return Fetcher(
            lambda: reading.partition_states,
            reading.is_wanted,
            reading.on_change,
            READ_COMMITTED if committed else READ_UNCOMMITTED,
            self._retry,
            self._connect_fetcher,
        )

    async def _connect_fetcher(self) -> FetchConnection:
        """Connect a client for fetches; after the first connection, wait until a broker is back."""
        cluster, leaders = await self._connect_cluster()
        missing = MissingOffsetPolicy(self.name, cluster, self.options.on_missing_offset)
        pauses = RequestBackoff()
        while True:
            asked_s = asyncio.get_running_loop().time()
            try:
                client = await connect_client(self.options, self.run_context.folder)
                return FetchConnection(client, leaders, missing)
            except ConnectorError:
                self._retry.record_failure(asked_s)
            await pauses.pause()

    async def _connect_cluster(self) -> tuple[ClusterRequests, LeaderLookup]:
        """Connect on first use. Raises ConnectorError if no broker is reachable."""
        async with self._open_lock:
            if self._cluster is None:
                client = await connect_client(self.options, self.run_context.folder)
                cluster = ClusterRequests(client, self._retry)
                leaders = LeaderLookup(cluster, LeaderlessTracker(self.name))
                self._cluster = cluster, leaders
        return self._cluster

    async def close(self) -> None:
        """Close the connection, and report the number of records left out."""
        if self._first_report is not None:
            await self._first_report
            await self._report_skipped(self._skipped)
        if self._cluster is not None:
            await self._cluster[0].client.close()
