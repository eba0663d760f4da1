"""Writers of one subtask: at least once, or with one transaction for each checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from aiokafka import errors as kafka

from headrace.connectors.kafka.errors import refusal
from headrace.connectors.kafka.sink.batches import Batches, Producer, Records
from headrace.connectors.kafka.sink.encoding import Encoding
from headrace.connectors.kafka.sink.link import Link
from headrace.connectors.kafka.sink.outflow import Outflow
from headrace.connectors.kafka.sink.packing import CODECS
from headrace.connectors.kafka.sink.sending import Sending
from headrace.connectors.kafka.sink.transactions import Transaction, Transactions, end
from headrace.core import faults
from headrace.core.bench import Bench
from headrace.core.contracts import ConnectorError
from headrace.core.messages import Handle

if TYPE_CHECKING:
    import polars as pl

ABORT_S = 3.0
"""Seconds to wait for the abort of a transaction that will not be committed."""


@dataclass(frozen=True, slots=True)
class Habits:
    """The settings of batches: compression and linger time."""

    compression: str = "none"
    linger: timedelta = timedelta(milliseconds=5)


@dataclass(slots=True)
class Output:
    """The output of a subtask, by its current producer."""

    link: Link
    encoding: Encoding
    bench: Bench
    habits: Habits
    _outflow: Outflow | None = None

    async def open(self, producer: Producer) -> Outflow:
        """Start writing with this producer."""
        batches = Batches(producer, CODECS[self.habits.compression])
        sending = Sending(await self.link.wire(), self.link.patience, batches)
        linger_s = self.habits.linger.total_seconds()
        self._outflow = Outflow(batches, sending, self.bench, linger_s)
        return self._outflow

    @property
    def outflow(self) -> Outflow | None:
        """The open write path, if any."""
        return self._outflow

    async def add(self, frame: pl.DataFrame) -> None:
        """Encode and send rows, divided by topic."""
        assert self._outflow is not None
        by_topic = partial(self.encoding.recipe.by_topic, frame)
        weight = frame.height if self.encoding.recipe.row_topic is not None else 0
        for topic, rows in await self.bench.run(weight, by_topic):
            count = await self.link.partitions(topic)
            await self._outflow.add(rows.height, partial(self._records, topic, rows, count))

    def _records(self, topic: str, rows: pl.DataFrame, count: int) -> Sequence[Records]:
        return [self.encoding.records(topic, rows, count)]

    async def close(self) -> None:
        """Close the write path, if open."""
        outflow, self._outflow = self._outflow, None
        if outflow is not None:
            await outflow.close()


@dataclass(slots=True)
class PlainWriter:
    """Writes at least once: an idempotent producer that flushes all rows at a barrier."""

    output: Output

    async def write(self, frame: pl.DataFrame) -> None:
        """Take rows."""
        if not frame.height:
            return
        if self.output.outflow is None:
            await self.output.open(await self._producer())
        await self.output.add(frame)

    async def _producer(self) -> Producer:
        link = self.output.link
        wire = await link.wire()
        try:
            ask = partial(wire.init, None)
            return await link.patience.insist(ask, otherwise=wire.refreshed)
        except kafka.KafkaError as error:
            raise refusal(error, "write") from error

    async def prepare(self) -> Handle | None:
        """Flush all rows; return None, as there is nothing to commit."""
        if self.output.outflow is not None:
            await self.output.outflow.flush()
            faults.point("sink.flushed")
        return None

    def kept(self) -> None:
        """Return None: the next writer needs no state."""

    async def close(self) -> None:
        """Stop writing, and cancel what is pending."""
        await self.output.close()


@dataclass(slots=True)
class TransactionalWriter:
    """Writes exactly once: a transaction from the first row after a barrier to the next barrier."""

    output: Output
    transactions: Transactions
    subtask: int
    _open: Transaction | None = None
    _since_s: float = field(default=0.0)

    async def write(self, frame: pl.DataFrame) -> None:
        """Take rows."""
        if not frame.height:
            return
        if self._open is None:
            link = self.output.link
            begin = self.transactions.begin(self.subtask, await link.wire(), link.patience)
            self._since_s = asyncio.get_running_loop().time()
            self._open = await begin
            await self.output.open(self._open.producer)
        await self.output.add(frame)

    async def prepare(self) -> Handle | None:
        """Flush all rows, and return the handle that commits them."""
        self.transactions.barrier(self.subtask)
        outflow, transaction = self.output.outflow, self._open
        if outflow is None or transaction is None:
            return None
        await outflow.flush()
        faults.point("sink.flushed")
        await self._alive(outflow, transaction)
        self.transactions.prepared(transaction)
        handle = transaction.handle(sorted(outflow.sending.topics), outflow.rows)
        await self.output.close()
        faults.point("sink.prepared")
        self._open = None  # If cancelled earlier, no handle was returned, and `close` aborts.
        return handle

    async def _alive(self, outflow: Outflow, transaction: Transaction) -> None:
        """Check that a long-open transaction was not ended by the broker.

        An error now only writes its rows again; after a checkpoint names it, they would be lost.
        """
        age_s = asyncio.get_running_loop().time() - self._since_s
        if age_s * 2000 < self.transactions.timeout_ms:
            return
        link, id = self.output.link, str(transaction.producer.id)
        wire = await link.wire()
        ask = partial(wire.add, transaction.producer, [outflow.sending.somewhere])
        try:
            await link.patience.insist(ask, otherwise=partial(wire.moved, id))
        except kafka.KafkaError as error:
            raise refusal(error, f"continue the transaction {id}") from error

    def kept(self) -> None:
        """Return None: the handles hold everything."""

    async def close(self) -> None:
        """Abort an unprepared transaction, so that no reader waits for it."""
        await self.output.close()
        transaction, self._open = self._open, None
        if transaction is None:
            return
        link = self.output.link
        with suppress(ConnectorError):
            wire = await link.wire()
            handle = transaction.handle([], 0)
            await end(handle, wire, link.patience, commit=False, within_s=ABORT_S)
