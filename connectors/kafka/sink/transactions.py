"""The transactions of a sink: opened with allocated ids, committed by the data of a handle.

Committing needs no writer: an EndTxn with the id, the producer and the epoch of the handle does it
from any process, any number of times, until the id is initialised again.

An unanswered initialisation may reach the broker later than the next one of that id, after the
broker or the network stood still. It would abort the transaction opened meanwhile, perhaps after a
checkpoint named it. So such an id is initialised again, and then not used any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
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
from headrace.connectors.kafka.sink.wire import BrokerRequests
from headrace.core.api.coordinator_link import CoordinatorRequest
from headrace.core.api.failures import ConnectorError
from headrace.core.api.splits import Handle
from headrace.core.errors import failpoints
from headrace.core.types.lazy_dataclass import dataclass

START_TIMEOUT_S = 30.0
"""Seconds to end a transaction that was left open."""


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
class ProducerInitializer:
    """Initialises transactional ids in one process."""

    timeout_ms: int
    doubtful_ids: set[str] = field(default_factory=set)
    """Ids that a delayed request may initialise once more."""

    async def init_safely(
        self, id: str, wire: BrokerRequests, patience: RequestRetry
    ) -> ProducerIdentity | None:
        """Initialise an id; None if a delayed request might still fence the producer."""
        producer = None if id in self.doubtful_ids else await self.init_producer(id, wire, patience)
        return None if id in self.doubtful_ids else producer

    async def init_producer(
        self, id: str, wire: BrokerRequests, patience: RequestRetry, within_s: float | None = None
    ) -> ProducerIdentity:
        """Initialise an id. Raises ConnectorError."""

        async def otherwise(error: kafka.KafkaError) -> None:
            if isinstance(error, UNREACHABLE_ERRORS):
                self.doubtful_ids.add(id)
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


@dataclass(slots=True)
class WriterTransactions:
    """Opens the transactions of all writers in one process."""

    request: CoordinatorRequest
    initializer: ProducerInitializer

    @property
    def timeout_ms(self) -> int:
        """The time after which a broker ends an open transaction."""
        return self.initializer.timeout_ms

    async def open_transaction(
        self, subtask: int, wire: BrokerRequests, patience: RequestRetry
    ) -> Transaction:
        """Open a transaction, with an id whose earlier transactions need no commit any more."""
        producer = None
        while producer is None:
            answer = await self.request({"subtask": subtask})
            id, slot = str(answer["id"]), int(str(answer["slot"]))
            producer = await self.initializer.init_safely(id, wire, patience)
        failpoints.failpoint("sink.opened")
        opened_at = datetime.now(UTC).isoformat(" ", "seconds").removesuffix("+00:00")
        return Transaction(subtask, slot, producer, opened_at)


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
    "ProducerInitializer",
    "Transaction",
    "WriterTransactions",
    "build_timeout_error",
    "describe_lost",
    "end_transaction",
]
