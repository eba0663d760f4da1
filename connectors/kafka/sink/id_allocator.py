"""The allocation of transactional ids: recorded before use, freed after their commit is recorded.

Writers, which may be in several processes, request an id for each transaction. The end of all
transactions that earlier attempts left open is here too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import field
from functools import partial

from headrace.connectors.kafka.retry import RequestRetry
from headrace.connectors.kafka.sink.producer_batches import TopicPartitionId
from headrace.connectors.kafka.sink.transactional_ids import SlotPool, TransactionalIds, parse_ids
from headrace.connectors.kafka.sink.transactions import (
    START_TIMEOUT_S,
    ProducerInitializer,
    write_markers,
)
from headrace.connectors.kafka.sink.wire import BrokerRequests
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import JobNotes
from headrace.core.api.snapshots import DamagedSnapshot
from headrace.core.api.splits import Handle
from headrace.core.api.stored_documents import MalformedDocument
from headrace.core.errors import failpoints
from headrace.core.types.lazy_dataclass import dataclass

MAX_CONCURRENT = 16
"""The number of ids initialised concurrently."""


@dataclass(slots=True)
class IdAllocator:
    """Allocates the transactional ids of a sink to its subtasks, in the coordinator's process."""

    ids: TransactionalIds
    """The ids of this run, once the record is written."""
    notes: JobNotes
    kernel_executor: KernelExecutor
    initializer: ProducerInitializer
    _pools: dict[int, SlotPool] = field(default_factory=dict)
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

    async def end_open(
        self,
        subtasks: Collection[int],
        wire: BrokerRequests,
        patience: RequestRetry,
        places: Sequence[TopicPartitionId] = (),
    ) -> None:
        """End the open transactions of subtasks whose writers are gone; no checkpoint names one.

        Their ids are not allocated again in this attempt.
        """
        ids = [
            self.ids.format_id(subtask, slot)
            for subtask in subtasks
            for slot in self._pools.get(subtask, SlotPool(())).open_slots
        ]
        await self._end_all(ids, wire, patience, places)

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
                producer = await self.initializer.init_producer(id, wire, patience, START_TIMEOUT_S)
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

    async def allocate_id(self, subtask: int) -> tuple[int, str]:
        """Allocate a recorded id, whose earlier transactions need no commit any more; with slot."""
        if not self._is_recorded:
            await self._load_ids()
        slot = await self._take_slot(subtask)
        self._pools[subtask] = self._pools[subtask].open_slot(slot)
        return slot, self.ids.format_id(subtask, slot)

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

    def record_committed(self, handle: Handle) -> None:
        """Record that a transaction, of this run or an earlier one, is committed."""
        subtask, slot = int(str(handle["subtask"])), int(str(handle["slot"]))
        if handle["id"] == self.ids.format_id(subtask, slot) and subtask in self._pools:
            self._pools[subtask] = self._pools[subtask].commit_slot(slot)

    def free_committed(self) -> None:
        """Free the ids of committed transactions, whose commits will not be repeated."""
        self._pools = {subtask: pool.free_committed() for subtask, pool in self._pools.items()}
