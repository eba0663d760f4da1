"""The transactions of a sink: opened with recorded ids, committed by the data of a handle.

Committing needs no writer: an EndTxn with the id, the producer and the epoch of the handle does it
from any process, any number of times, until the id is initialised again.

An unanswered initialisation may reach the broker later than the next one of that id, after the
broker or the network stood still. It would abort the transaction opened meanwhile, perhaps after a
checkpoint named it. So such an id is initialised again, and then not used any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from aiokafka import errors as kafka

from headrace.connectors.kafka.errors import (
    LOST_TRANSACTION_ERRORS,
    UNREACHABLE_ERRORS,
    NoBrokerAnswered,
    translate_error,
)
from headrace.connectors.kafka.retry import RequestRetry
from headrace.connectors.kafka.sink.producer_batches import ProducerIdentity, TopicPartitionId
from headrace.connectors.kafka.sink.transactional_ids import SlotPool, TransactionalIds, parse_ids
from headrace.connectors.kafka.sink.wire import BrokerRequests
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import JobNotes
from headrace.core.api.snapshots import DamagedSnapshot
from headrace.core.api.splits import Handle
from headrace.core.api.stored_documents import MalformedDocument
from headrace.core.errors import failpoints

START_TIMEOUT_S = 30.0
"""Seconds to end a transaction that was left open."""
MAX_CONCURRENT = 16
"""The number of ids initialised concurrently."""


class PartitionDeleted(kafka.KafkaError):  # type: ignore[misc] # it has no types
    """A partition that no longer exists, and is not waited for."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """An open transaction: the slot of its id, its producer, and when it was opened (UTC)."""

    subtask: int
    slot: int
    producer: ProducerIdentity
    opened_at: str

    def build_handle(self, topics: Sequence[str], rows: int) -> Handle:
        """Return the handle to commit it, with the data to report if the commit fails."""
        who = self.producer
        return {
            "id": str(who.transactional_id),
            "producer": who.producer_id,
            "epoch": who.epoch,
            "subtask": self.subtask,
            "slot": self.slot,
            "topics": list(topics),
            "rows": rows,
            "opened_at": self.opened_at,
        }


@dataclass(slots=True)
class SinkTransactions:
    """The transactions of all subtasks of a sink in a run."""

    ids: TransactionalIds
    """The ids of this run, once the record is written."""
    notes: JobNotes
    kernel_executor: KernelExecutor
    timeout_ms: int
    _pools: dict[int, SlotPool] = field(default_factory=dict)
    _doubtful_ids: set[str] = field(default_factory=set)
    """Ids that a delayed request may initialise once more."""
    _is_recorded: bool = False
    """Whether `record` is the stored one."""
    _write_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def opens_transactions(self) -> bool:
        """Whether this run opens transactions; otherwise it only ends those of earlier runs."""
        return self.ids.subtasks > 0

    async def end_previous(
        self, wire: BrokerRequests, patience: RequestRetry, places: Sequence[TopicPartitionId] = ()
    ) -> None:
        """End all transactions of the stored record, and store the record of this run.

        They may belong to an earlier run that wrote exactly once, even if this one does not.
        Afterwards none of them is open in the partitions `places`, even if the broker forgot to end
        one there.
        """
        last = await self._read_ids()
        if last is not None:
            await self._end_all(list(last.iterate_ids()), wire, patience, places)
            failpoints.failpoint("sink.initialised")
            self.ids = self.ids.with_next_generation(last)
        if last is not None or self.opens_transactions:
            await self._store_ids(self.ids)
        self._is_recorded = True
        self._pools.clear()

    async def _end_all(
        self,
        ids: Sequence[str],
        wire: BrokerRequests,
        patience: RequestRetry,
        places: Sequence[TopicPartitionId],
    ) -> None:
        some = asyncio.Semaphore(MAX_CONCURRENT)

        async def init_id(id: str) -> None:
            async with some:
                producer = await self._init_producer(id, wire, patience, START_TIMEOUT_S)
                if producer.epoch and places:
                    await write_markers(producer, wire, patience, places)

        tasks = [asyncio.create_task(init_id(id)) for id in ids]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _store_ids(self, record: TransactionalIds) -> None:
        write = partial(self.notes.write, record.sink, record.to_document())
        await self.kernel_executor.run_blocking(write)
        self.ids = record
        failpoints.failpoint("sink.recorded")

    async def open_transaction(
        self, subtask: int, wire: BrokerRequests, patience: RequestRetry
    ) -> Transaction:
        """Open a transaction, with an id whose earlier transactions need no commit any more."""
        if not self._is_recorded:
            await self._load_ids()
        producer = None
        while producer is None:
            slot = await self._take_slot(subtask)
            producer = await self._init_safely(self.ids.format_id(subtask, slot), wire, patience)
            self._pools[subtask] = self._pools[subtask].open_slot(slot)
        failpoints.failpoint("sink.opened")
        opened_at = datetime.now(UTC).isoformat(" ", "seconds").removesuffix("+00:00")
        return Transaction(subtask, slot, producer, opened_at)

    async def _load_ids(self) -> None:
        """Load the record that another process of the same run has written."""
        ids = await self._read_ids()
        assert ids is not None, "the record was never written"
        self.ids, self._is_recorded = ids, True

    async def _read_ids(self) -> TransactionalIds | None:
        """Return the stored record. Raises SnapshotError."""
        name = self.ids.sink
        noted = await self.kernel_executor.run_blocking(partial(self.notes.read, name))
        try:
            return None if noted is None else parse_ids(noted)
        except MalformedDocument as error:
            message = f"the note of {name} in the home of the job is damaged: {error}"
            hint = f"remove notes/{name}.json there: what is open elsewhere then ends by time-out"
            raise DamagedSnapshot(message, hint) from error

    async def _init_safely(
        self, id: str, wire: BrokerRequests, patience: RequestRetry
    ) -> ProducerIdentity | None:
        """Initialise an id; None if a delayed request might still fence the producer."""
        producer = (
            None if id in self._doubtful_ids else await self._init_producer(id, wire, patience)
        )
        return None if id in self._doubtful_ids else producer

    async def _take_slot(self, subtask: int) -> int:
        if self._pools.setdefault(subtask, SlotPool.of_size(self.ids.slots)).free_slot is None:
            async with self._write_lock:
                if len(self._pools[subtask].slots) == self.ids.slots:
                    await self._store_ids(self.ids.with_one_more_slot())
            # Some slots may have been committed meanwhile.
            self._pools[subtask] = self._pools[subtask].with_one_more()
        free = self._pools[subtask].free_slot
        assert free is not None
        return free

    def record_barrier(self, subtask: int) -> None:
        """Record that a barrier has reached the subtask."""
        if subtask in self._pools:
            self._pools[subtask] = self._pools[subtask].free_committed()

    def record_prepared(self, transaction: Transaction) -> None:
        """Record that the transaction is prepared, so that a checkpoint may name it."""
        subtask = transaction.subtask
        self._pools[subtask] = self._pools[subtask].prepare_slot(transaction.slot)

    def record_committed(self, handle: Handle) -> None:
        """Record that a transaction, of this run or an earlier one, is committed."""
        subtask, slot = int(str(handle["subtask"])), int(str(handle["slot"]))
        if handle["id"] == self.ids.format_id(subtask, slot) and subtask in self._pools:
            self._pools[subtask] = self._pools[subtask].commit_slot(slot)

    async def _init_producer(
        self, id: str, wire: BrokerRequests, patience: RequestRetry, within_s: float | None = None
    ) -> ProducerIdentity:
        async def otherwise(error: kafka.KafkaError) -> None:
            if isinstance(error, UNREACHABLE_ERRORS):
                self._doubtful_ids.add(id)
            await wire.forget_if_moved(id, error)

        try:
            return await patience.retry_request(
                partial(wire.init_producer, id, self.timeout_ms),
                otherwise=otherwise,
                within_s=within_s,
            )
        except kafka.InvalidTransactionTimeout:
            raise build_timeout_error(self.timeout_ms, None) from None
        except kafka.KafkaError as error:
            raise translate_error(error, f"open the transaction {id}") from error


async def write_markers(
    producer: ProducerIdentity,
    wire: BrokerRequests,
    patience: RequestRetry,
    places: Sequence[TopicPartitionId],
) -> None:
    """Write markers to partitions that end any open transaction of the producer there.

    A broker may have recorded an abort as complete without notifying any partition. Partitions that
    cannot be marked, because a topic is missing or access denied, do not keep the job from
    starting. A producer of epoch 0 was never used: it needs no markers.
    """
    id = str(producer.transactional_id)

    async def add() -> None:
        try:
            await wire.add_partitions(producer, places)
        except kafka.UnknownTopicOrPartitionError:
            raise PartitionDeleted from None

    try:
        await patience.retry_request(
            add, otherwise=partial(wire.forget_if_moved, id), within_s=START_TIMEOUT_S
        )
    except (*UNREACHABLE_ERRORS, NoBrokerAnswered) as error:
        raise translate_error(error, f"end the transaction {id}") from error
    except kafka.KafkaError:
        return
    await _end_producer(producer, wire, patience, commit=False, within_s=START_TIMEOUT_S)


async def end_transaction(
    handle: Handle,
    wire: BrokerRequests,
    patience: RequestRetry,
    *,
    commit: bool,
    within_s: float | None = None,
) -> bool:
    """Commit or abort the transaction of a handle; return whether it existed."""
    id = str(handle["id"])
    producer = ProducerIdentity(int(str(handle["producer"])), int(str(handle["epoch"])), id)
    return await _end_producer(producer, wire, patience, commit=commit, within_s=within_s)


async def _end_producer(
    producer: ProducerIdentity,
    wire: BrokerRequests,
    patience: RequestRetry,
    *,
    commit: bool,
    within_s: float | None,
) -> bool:
    id = str(producer.transactional_id)
    try:
        await patience.retry_request(
            partial(wire.end_transaction, producer, commit=commit),
            otherwise=partial(wire.forget_if_moved, id),
            within_s=within_s,
        )
    except LOST_TRANSACTION_ERRORS:
        return False
    except kafka.KafkaError as error:
        what = "commit" if commit else "abort"
        raise translate_error(error, f"{what} the transaction {id}") from error
    return True


def describe_lost(handle: Handle) -> str:
    """Describe the lost rows of a checkpoint's transaction that no longer exists."""
    topics = handle["topics"]
    assert isinstance(topics, list)
    where = ("topic " if len(topics) == 1 else "topics ") + ", ".join(map(str, topics))
    rows = int(str(handle["rows"]))
    many = f"{rows:,} rows" if rows != 1 else "1 row"
    return (
        f"{many} to {where} are lost: the broker has ended their transaction before it could be "
        f"committed ({handle['id']}, opened at {handle['opened_at']} UTC)"
    )


def build_timeout_error(timeout_ms: int, max_ms: int | None) -> ConnectorError:
    """Build the error for a timeout that the broker does not allow."""
    limit = f", which allows {max_ms / 1000:g} s at most" if max_ms else ""
    return ConnectorError(
        f"transaction_timeout is longer than the broker allows: {timeout_ms / 1000:g} s{limit}",
        "the broker's transaction.max.timeout.ms is the maximum",
        final=True,
    )


__all__ = [
    "SinkTransactions",
    "Transaction",
    "build_timeout_error",
    "describe_lost",
    "end_transaction",
]
