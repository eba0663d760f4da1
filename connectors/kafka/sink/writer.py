"""What one subtask writes to topics: at least once, or in a transaction for each checkpoint."""

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
"""So long is waited for a broker to forget a transaction that nobody will commit."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How rows are sent."""

    compression: str = "none"
    linger: timedelta = timedelta(milliseconds=5)


@dataclass(slots=True)
class Output:
    """Rows of a subtask on their way, by whatever producer there is."""

    link: Link
    encoding: Encoding
    bench: Bench
    habits: Habits
    _outflow: Outflow | None = None

    async def open(self, producer: Producer) -> Outflow:
        """Write by this producer from now on."""
        batches = Batches(producer, CODECS[self.habits.compression])
        sending = Sending(await self.link.wire(), self.link.patience, batches)
        linger_s = self.habits.linger.total_seconds()
        self._outflow = Outflow(batches, sending, self.bench, linger_s)
        return self._outflow

    @property
    def outflow(self) -> Outflow | None:
        """What is open, if anything."""
        return self._outflow

    async def add(self, frame: pl.DataFrame) -> None:
        """Take rows."""
        assert self._outflow is not None
        by_topic = partial(self.encoding.recipe.by_topic, frame)
        weight = frame.height if self.encoding.recipe.row_topic is not None else 0
        for topic, rows in await self.bench.run(weight, by_topic):
            count = await self.link.partitions(topic)
            await self._outflow.add(rows.height, partial(self._records, topic, rows, count))

    def _records(self, topic: str, rows: pl.DataFrame, count: int) -> Sequence[Records]:
        return [self.encoding.records(topic, rows, count)]

    async def close(self) -> None:
        """Let go of what is open."""
        outflow, self._outflow = self._outflow, None
        if outflow is not None:
            await outflow.close()


@dataclass(slots=True)
class PlainWriter:
    """At least once: an idempotent producer, whose rows are all there at a barrier."""

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
        """Have all rows written; there is nothing to commit."""
        if self.output.outflow is not None:
            await self.output.outflow.flush()
            faults.point("sink.flushed")
        return None

    def kept(self) -> None:
        """Nothing."""

    async def close(self) -> None:
        """Write nothing more."""
        await self.output.close()


@dataclass(slots=True)
class TransactionalWriter:
    """Exactly once: a transaction from the first row behind a barrier to the next barrier."""

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
        """Have all rows written, and say how they are committed."""
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
        self._open = None  # Who is cancelled before has told nobody of it: it is to be aborted.
        return handle

    async def _alive(self, outflow: Outflow, transaction: Transaction) -> None:
        """One that has been open for long may have been ended: better to know it now.

        Without a checkpoint that names it, its rows are only written again.
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
            raise refusal(error, f"go on with the transaction {id}") from error

    def kept(self) -> None:
        """Nothing: what it has prepared says all."""

    async def close(self) -> None:
        """Abort what was not prepared, so that no reader waits for it."""
        await self.output.close()
        transaction, self._open = self._open, None
        if transaction is None:
            return
        link = self.output.link
        with suppress(ConnectorError):
            wire = await link.wire()
            handle = transaction.handle([], 0)
            await end(handle, wire, link.patience, commit=False, within_s=ABORT_S)
