"""The two halves of the Kafka sink: checks before a run and commits, and writers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from aiokafka import errors as kafka

from headrace.connectors.kafka.retry import OutageReports
from headrace.connectors.kafka.sink.encoding import RecordEncoder, RecordMapping
from headrace.connectors.kafka.sink.id_allocator import IdAllocator
from headrace.connectors.kafka.sink.link import BrokerLink
from headrace.connectors.kafka.sink.producer_batches import TopicPartitionId
from headrace.connectors.kafka.sink.transactions import (
    WriterTransactions,
    build_timeout_error,
    describe_lost,
    end_transaction,
)
from headrace.connectors.kafka.sink.wire import BROKER_RESOURCE, BrokerRequests
from headrace.connectors.kafka.sink.writer import (
    AtLeastOnceWriter,
    BatchSettings,
    ProducerOutput,
    TransactionalWriter,
)
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import CommitTiming
from headrace.core.api.sinks import SinkWriter
from headrace.core.api.splits import Handle
from headrace.core.api.state import Document
from headrace.core.errors import failpoints
from headrace.core.types.lazy_dataclass import dataclass

MAX_TIMEOUT_KEY = "transaction.max.timeout.ms"
ABORT_TIMEOUT_S = 10.0


@dataclass(slots=True)
class TopicSink:
    """The `SinkCoordinator` over topics; without transactions it writes at least once."""

    name: str
    link: BrokerLink
    topic: str | None
    """The topic; None if each row names its topic."""
    ids: IdAllocator
    outages: OutageReports
    commit_timing: CommitTiming | None = None
    on_lost_transaction: Literal["fail", "warn"] = "fail"
    has_row_limit: bool = False
    """Whether `--limit` downgrades exactly once to at least once, as it takes no checkpoints."""

    async def check(self) -> None:
        """Check that the topic exists, and end transactions that earlier runs left open."""
        wire = await self.link.get_wire()
        places = await self._list_partitions()
        if self.ids.opens_transactions:
            await self._check_timeout(self.ids.initializer.timeout_ms, wire)
        await self.ids.end_previous(wire, self.link.retry, places)
        if self.has_row_limit:
            self.link.retry.notify_user(
                f"{self.name}: with --limit rows are written at least once: there are no "
                "checkpoints to commit with"
            )

    async def _list_partitions(self) -> Sequence[TopicPartitionId]:
        """Return the partitions of the topic; none if each row names its topic."""
        topic = self.topic
        if topic is None:
            return []
        return [(topic, number) for number in range(await self.link.count_partitions(topic))]

    async def _check_timeout(self, timeout_ms: int, wire: BrokerRequests) -> None:
        """Check that transactions may stay open until their commit, even with a slow checkpoint."""
        max_ms = await self._request_max_timeout_ms(wire)
        if max_ms is not None and timeout_ms > max_ms:
            raise build_timeout_error(timeout_ms, max_ms)
        commits, timeout_s = self.commit_timing, timeout_ms / 1000
        if commits is None or commits.interval_s is None:
            return  # Everything is committed at the end.
        every_s = commits.interval_s
        if timeout_s <= every_s:
            message = (
                f"transaction_timeout is {timeout_s:g} s, and a checkpoint every {every_s:g} s"
            )
            hint = "a transaction is open from one checkpoint to the next: take them more often"
            raise ConnectorError(message, hint, exit_status=2, final=True)
        needed_s = every_s + commits.timeout_s + commits.max_restart_pause_s
        if timeout_s < needed_s:
            self.link.retry.notify_user(
                f"{self.name}: transaction_timeout is {timeout_s:g} s; with a slow checkpoint and "
                f"a restart, a transaction may be open for {needed_s:g} s, and its rows be lost"
            )

    async def _request_max_timeout_ms(self, wire: BrokerRequests) -> int | None:
        """Return the longest timeout that the broker allows, if it reports it."""
        for broker in wire.list_brokers()[:1]:
            try:
                request = wire.request_config(BROKER_RESOURCE, str(broker), MAX_TIMEOUT_KEY)
                allowed = await self.link.retry.watch_request(request)
            except kafka.KafkaError:
                return None
            return int(allowed) if allowed else None
        return None

    async def describe_for_workers(self) -> Document:
        """Return nothing."""
        return {}

    async def answer(self, request: Document) -> Document:
        """Show an outage, or allocate a transactional id to a subtask."""
        if "outage" in request:
            self.outages.report_request(request)
            return {}
        slot, id = await self.ids.allocate_id(int(str(request["subtask"])))
        return {"slot": slot, "id": id}

    async def commit(self, handle: Handle) -> None:
        """Commit a transaction, waiting for a broker that is away."""
        failpoints.failpoint("sink.committing")
        found = await end_transaction(
            handle, await self.link.get_wire(), self.link.retry, commit=True
        )
        if not found:
            self._handle_lost(describe_lost(handle))
        self.ids.record_committed(handle)
        failpoints.failpoint("sink.committed")

    def on_commits_recorded(self) -> None:
        """Free the transactional ids of what is committed."""
        self.ids.free_committed()

    def _handle_lost(self, message: str) -> None:
        """Handle a lost transaction of a checkpoint: report it or raise ConnectorError."""
        if self.on_lost_transaction == "warn":
            self.link.retry.notify_user(f"{self.name}: {message}")
            return
        hint = (
            "on_lost_transaction: warn continues without them; an earlier savepoint writes them "
            "again; a longer transaction_timeout, or more frequent checkpoints, prevent it"
        )
        raise ConnectorError(message, hint, final=True)

    async def abort(self, handle: Handle) -> None:
        """Abort a transaction, so that no reader waits for it; a missing one counts as aborted."""
        wire = await self.link.get_wire()
        await end_transaction(handle, wire, self.link.retry, commit=False, within_s=ABORT_TIMEOUT_S)

    async def end_lost_writers(self, subtasks: Collection[int]) -> None:
        """Abort the transactions that these writers have left open."""
        if not self.ids.opens_transactions:
            return
        wire = await self.link.get_wire()
        await self.ids.end_open(subtasks, wire, self.link.retry, await self._list_partitions())

    async def close(self) -> None:
        await self.link.close()


@dataclass(slots=True)
class TopicWriters:
    """The `WriterFactory` over topics; its writers share a connection."""

    link: BrokerLink
    mapping: RecordMapping
    batch_settings: BatchSettings
    kernel_executor: KernelExecutor
    transactions: WriterTransactions | None
    """None: rows are written at least once."""

    def create_writer(self, subtask: int, states: Sequence[Document] = ()) -> SinkWriter:
        """Return a writer, which connects at its first row."""
        encoding = RecordEncoder(self.mapping, next_partition=subtask)
        output = ProducerOutput(self.link, encoding, self.kernel_executor, self.batch_settings)
        if self.transactions is None:
            return AtLeastOnceWriter(output)
        return TransactionalWriter(output, self.transactions, subtask)

    async def close(self) -> None:
        await self.link.close()
