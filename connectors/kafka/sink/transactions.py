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

from headrace.connectors.kafka.errors import AWAY, LOST, NobodyAnswers, refusal
from headrace.connectors.kafka.patience import Patience
from headrace.connectors.kafka.sink.batches import Place, Producer
from headrace.connectors.kafka.sink.ids import Record, read
from headrace.connectors.kafka.sink.pool import Pool
from headrace.connectors.kafka.sink.wire import Wire
from headrace.core import faults
from headrace.core.bench import Bench
from headrace.core.contracts import ConnectorError, Notes
from headrace.core.messages import Handle

START_S = 30.0
"""Seconds to end a transaction that was left open."""
AT_ONCE = 16
"""The number of ids initialised concurrently."""


class Gone(kafka.KafkaError):  # type: ignore[misc] # it has no types
    """A partition that no longer exists, and is not waited for."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """An open transaction: the slot of its id, its producer, and when it was opened (UTC)."""

    subtask: int
    slot: int
    producer: Producer
    opened_at: str

    def handle(self, topics: Sequence[str], rows: int) -> Handle:
        """Return the handle to commit it, with the data to report if the commit fails."""
        who = self.producer
        return {
            "id": str(who.id),
            "producer": who.number,
            "epoch": who.epoch,
            "subtask": self.subtask,
            "slot": self.slot,
            "topics": list(topics),
            "rows": rows,
            "opened_at": self.opened_at,
        }


@dataclass(slots=True)
class Transactions:
    """The transactions of all subtasks of a sink in a run."""

    record: Record
    """The ids of this run, once the record is written."""
    notes: Notes
    bench: Bench
    timeout_ms: int
    _pools: dict[int, Pool] = field(default_factory=dict)
    _doubtful: set[str] = field(default_factory=set)
    """Ids that a delayed request may initialise once more."""
    _recorded: bool = False
    """Whether `record` is the stored one."""
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def opens(self) -> bool:
        """Whether this run opens transactions; otherwise it only ends those of earlier runs."""
        return self.record.subtasks > 0

    async def recover(self, wire: Wire, patience: Patience, places: Sequence[Place] = ()) -> None:
        """End all transactions of the stored record, and store the record of this run.

        They may belong to an earlier run that wrote exactly once, even if this one does not.
        Afterwards none of them is open in the partitions `places`, even if the broker forgot to end
        one there.
        """
        noted = await self.bench.blocking(partial(self.notes.read, self.record.sink))
        if noted is not None:
            last = read(noted)
            await self._end_all(list(last.ids()), wire, patience, places)
            faults.point("sink.initialised")
            self.record = self.record.behind(last)
        if noted is not None or self.opens:
            await self._write(self.record)
        self._recorded = True
        self._pools.clear()

    async def _end_all(
        self, ids: Sequence[str], wire: Wire, patience: Patience, places: Sequence[Place]
    ) -> None:
        some = asyncio.Semaphore(AT_ONCE)

        async def one(id: str) -> None:
            async with some:
                producer = await self._init(id, wire, patience, START_S)
                if producer.epoch and places:
                    await mark(producer, wire, patience, places)

        tasks = [asyncio.create_task(one(id)) for id in ids]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, record: Record) -> None:
        write = partial(self.notes.write, record.sink, record.document())
        await self.bench.blocking(write)
        self.record = record
        faults.point("sink.recorded")

    async def begin(self, subtask: int, wire: Wire, patience: Patience) -> Transaction:
        """Open a transaction, with an id whose earlier transactions need no commit any more."""
        if not self._recorded:
            await self._join()
        producer = None
        while producer is None:
            slot = await self._slot(subtask)
            producer = await self._surely(self.record.id(subtask, slot), wire, patience)
            self._pools[subtask] = self._pools[subtask].opened(slot)
        faults.point("sink.opened")
        opened_at = datetime.now(UTC).isoformat(" ", "seconds").removesuffix("+00:00")
        return Transaction(subtask, slot, producer, opened_at)

    async def _join(self) -> None:
        """Load the record that another process of the same run has written."""
        noted = await self.bench.blocking(partial(self.notes.read, self.record.sink))
        assert noted is not None, "the record was never written"
        self.record, self._recorded = read(noted), True

    async def _surely(self, id: str, wire: Wire, patience: Patience) -> Producer | None:
        """Initialise an id; None if a delayed request might still fence the producer."""
        producer = None if id in self._doubtful else await self._init(id, wire, patience)
        return None if id in self._doubtful else producer

    async def _slot(self, subtask: int) -> int:
        if self._pools.setdefault(subtask, Pool.of(self.record.slots)).free is None:
            async with self._writing:
                if len(self._pools[subtask].slots) == self.record.slots:
                    await self._write(self.record.grown())
            # Some slots may have been committed meanwhile.
            self._pools[subtask] = self._pools[subtask].grown()
        free = self._pools[subtask].free
        assert free is not None
        return free

    def barrier(self, subtask: int) -> None:
        """Record that a barrier has reached the subtask."""
        if subtask in self._pools:
            self._pools[subtask] = self._pools[subtask].barrier()

    def prepared(self, transaction: Transaction) -> None:
        """Record that the transaction is prepared, so that a checkpoint may name it."""
        subtask = transaction.subtask
        self._pools[subtask] = self._pools[subtask].prepared(transaction.slot)

    def committed(self, handle: Handle) -> None:
        """Record that a transaction, of this run or an earlier one, is committed."""
        subtask, slot = int(str(handle["subtask"])), int(str(handle["slot"]))
        if handle["id"] == self.record.id(subtask, slot) and subtask in self._pools:
            self._pools[subtask] = self._pools[subtask].committed(slot)

    async def _init(
        self, id: str, wire: Wire, patience: Patience, within_s: float | None = None
    ) -> Producer:
        async def otherwise(error: kafka.KafkaError) -> None:
            if isinstance(error, AWAY):
                self._doubtful.add(id)
            await wire.moved(id, error)

        try:
            return await patience.insist(
                partial(wire.init, id, self.timeout_ms),
                otherwise=otherwise,
                within_s=within_s,
            )
        except kafka.InvalidTransactionTimeout:
            raise too_long(self.timeout_ms, None) from None
        except kafka.KafkaError as error:
            raise refusal(error, f"open the transaction {id}") from error


async def mark(producer: Producer, wire: Wire, patience: Patience, places: Sequence[Place]) -> None:
    """Write markers to partitions that end any open transaction of the producer there.

    A broker may have recorded an abort as complete without notifying any partition. Partitions that
    cannot be marked, because a topic is missing or access denied, do not keep the job from
    starting. A producer of epoch 0 was never used: it needs no markers.
    """
    id = str(producer.id)

    async def add() -> None:
        try:
            await wire.add(producer, places)
        except kafka.UnknownTopicOrPartitionError:
            raise Gone from None

    try:
        await patience.insist(add, otherwise=partial(wire.moved, id), within_s=START_S)
    except (*AWAY, NobodyAnswers) as error:
        raise refusal(error, f"end the transaction {id}") from error
    except kafka.KafkaError:
        return
    await _end(producer, wire, patience, commit=False, within_s=START_S)


async def end(
    handle: Handle, wire: Wire, patience: Patience, *, commit: bool, within_s: float | None = None
) -> bool:
    """Commit or abort the transaction of a handle; return whether it existed."""
    id = str(handle["id"])
    producer = Producer(int(str(handle["producer"])), int(str(handle["epoch"])), id)
    return await _end(producer, wire, patience, commit=commit, within_s=within_s)


async def _end(
    producer: Producer, wire: Wire, patience: Patience, *, commit: bool, within_s: float | None
) -> bool:
    id = str(producer.id)
    try:
        await patience.insist(
            partial(wire.end, producer, commit=commit),
            otherwise=partial(wire.moved, id),
            within_s=within_s,
        )
    except LOST:
        return False
    except kafka.KafkaError as error:
        what = "commit" if commit else "abort"
        raise refusal(error, f"{what} the transaction {id}") from error
    return True


def lost(handle: Handle) -> str:
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


def too_long(timeout_ms: int, most_ms: int | None) -> ConnectorError:
    """Build the error for a timeout that the broker does not allow."""
    most = f", which allows {most_ms / 1000:g} s at most" if most_ms else ""
    return ConnectorError(
        f"transaction_timeout is longer than the broker allows: {timeout_ms / 1000:g} s{most}",
        "the broker's transaction.max.timeout.ms is the maximum",
        final=True,
    )


__all__ = ["Transaction", "Transactions", "end", "lost", "too_long"]
