"""Writers of one subtask: at least once, or with one transaction for each checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from aiokafka import errors as kafka

from headrace.connectors.kafka.errors import translate_error
from headrace.connectors.kafka.sink.batch_compression import CODEC_NUMBERS
from headrace.connectors.kafka.sink.batch_sender import BatchSender
from headrace.connectors.kafka.sink.encoding import RecordEncoder
from headrace.connectors.kafka.sink.link import BrokerLink
from headrace.connectors.kafka.sink.producer_batches import (
    ProducerBatches,
    ProducerIdentity,
    RecordColumns,
)
from headrace.connectors.kafka.sink.row_sender import RowSender
from headrace.connectors.kafka.sink.transactions import (
    Transaction,
    WriterTransactions,
    end_transaction,
)
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.splits import Handle
from headrace.core.errors import failpoints
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

ABORT_TIMEOUT_S = 3.0
"""Seconds to wait for the abort of a transaction that will not be committed."""


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The settings of batches: compression and linger time."""

    compression: str = "none"
    linger: timedelta = timedelta(milliseconds=5)


@dataclass(slots=True)
class ProducerOutput:
    """The output of a subtask, by its current producer."""

    link: BrokerLink
    encoding: RecordEncoder
    kernel_executor: KernelExecutor
    batch_settings: BatchSettings
    _row_sender: RowSender | None = None

    async def open_sender(self, producer: ProducerIdentity) -> RowSender:
        """Start writing with this producer."""
        batches = ProducerBatches(producer, CODEC_NUMBERS[self.batch_settings.compression])
        sending = BatchSender(await self.link.get_wire(), self.link.retry, batches)
        linger_s = self.batch_settings.linger.total_seconds()
        self._row_sender = RowSender(batches, sending, self.kernel_executor, linger_s)
        return self._row_sender

    @property
    def row_sender(self) -> RowSender | None:
        """The open write path, if any."""
        return self._row_sender

    async def add_rows(self, frame: pl.DataFrame) -> None:
        """Encode and send rows, divided by topic."""
        assert self._row_sender is not None
        by_topic = partial(self.encoding.mapping.divide_by_topic, frame)
        weight = frame.height if self.encoding.mapping.row_topic is not None else 0
        for topic, rows in await self.kernel_executor.run(weight, by_topic):
            count = await self.link.count_partitions(topic)
            await self._row_sender.add_rows(
                rows.height, partial(self._encode_records, topic, rows, count)
            )

    def _encode_records(
        self, topic: str, rows: pl.DataFrame, count: int
    ) -> Sequence[RecordColumns]:
        return [self.encoding.encode_rows(topic, rows, count)]

    async def close(self) -> None:
        """Close the write path, if open."""
        outflow, self._row_sender = self._row_sender, None
        if outflow is not None:
            await outflow.close()


@dataclass(slots=True)
class AtLeastOnceWriter:
    """Writes at least once: an idempotent producer that flushes all rows at a barrier."""

    output: ProducerOutput

    async def write(self, frame: pl.DataFrame) -> None:
        """Take rows."""
        if not frame.height:
            return
        if self.output.row_sender is None:
            await self.output.open_sender(await self._init_producer())
        await self.output.add_rows(frame)

    async def _init_producer(self) -> ProducerIdentity:
        link = self.output.link
        wire = await link.get_wire()
        try:
            request = partial(wire.init_producer, None)
            return await link.retry.retry_request(request, otherwise=wire.refresh_if_moved)
        except kafka.KafkaError as error:
            raise translate_error(error, "write") from error

    async def prepare(self) -> Handle | None:
        """Flush all rows; return None, as there is nothing to commit."""
        if self.output.row_sender is not None:
            await self.output.row_sender.flush()
            failpoints.failpoint("sink.flushed")
        return None

    def snapshot_state(self) -> None:
        """Return None: the next writer needs no state."""

    async def close(self) -> None:
        """Stop writing, and cancel what is pending."""
        await self.output.close()


@dataclass(slots=True)
class TransactionalWriter:
    """Writes exactly once: a transaction from the first row after a barrier to the next barrier."""

    output: ProducerOutput
    transactions: WriterTransactions
    subtask: int
    _transaction: Transaction | None = None
    _opened_at_s: float = field(default=0.0)

    async def write(self, frame: pl.DataFrame) -> None:
        """Take rows."""
        if not frame.height:
            return
        if self._transaction is None:
            link = self.output.link
            begin = self.transactions.open_transaction(
                self.subtask, await link.get_wire(), link.retry
            )
            self._opened_at_s = asyncio.get_running_loop().time()
            self._transaction = await begin
            await self.output.open_sender(self._transaction.producer)
        await self.output.add_rows(frame)

    async def prepare(self) -> Handle | None:
        """Flush all rows, and return the handle that commits them."""
        outflow, transaction = self.output.row_sender, self._transaction
        if outflow is None or transaction is None:
            return None
        await outflow.flush()
        failpoints.failpoint("sink.flushed")
        await self._check_alive(outflow, transaction)
        handle = transaction.build_handle(sorted(outflow.batch_sender.topics), outflow.row_count)
        await self.output.close()
        failpoints.failpoint("sink.prepared")
        self._transaction = (
            None  # If cancelled earlier, no handle was returned, and `close` aborts.
        )
        return handle

    async def _check_alive(self, outflow: RowSender, transaction: Transaction) -> None:
        """Check that a long-open transaction was not ended by the broker.

        An error now only writes its rows again; after a checkpoint names it, they would be lost.
        """
        age_s = asyncio.get_running_loop().time() - self._opened_at_s
        if age_s * 2000 < self.transactions.timeout_ms:
            return
        link, id = self.output.link, str(transaction.producer.transactional_id)
        wire = await link.get_wire()
        request = partial(
            wire.add_partitions, transaction.producer, [outflow.batch_sender.any_partition]
        )
        try:
            await link.retry.retry_request(request, otherwise=partial(wire.forget_if_moved, id))
        except kafka.KafkaError as error:
            raise translate_error(error, f"continue the transaction {id}") from error

    def snapshot_state(self) -> None:
        """Return None: the handles hold everything."""

    async def close(self) -> None:
        """Abort an unprepared transaction, so that no reader waits for it."""
        await self.output.close()
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            return
        link = self.output.link
        with suppress(ConnectorError):
            wire = await link.get_wire()
            handle = transaction.build_handle([], 0)
            await end_transaction(handle, wire, link.retry, commit=False, within_s=ABORT_TIMEOUT_S)
