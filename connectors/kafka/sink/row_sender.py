"""The write path of one producer: rows are encoded, collected into batches, and sent.

Single rows are sent once they have lingered, but not while a batch of their partition is in flight;
so while a broker is busy rows are collected, and requests grow under load.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from functools import partial

from headrace.connectors.kafka.sink.batch_sender import BatchSender
from headrace.connectors.kafka.sink.producer_batches import (
    ProducerBatches,
    RecordColumns,
    SealedBatch,
)
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.types.lazy_dataclass import dataclass

MAX_OPEN_BYTES = 64 << 20
"""The maximum bytes in batches that are not full."""


@dataclass(slots=True)
class RowSender:
    """The rows that one producer writes."""

    batches: ProducerBatches
    batch_sender: BatchSender
    kernel_executor: KernelExecutor
    linger_s: float
    row_count: int = 0
    """The number of rows added."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Guards the batches, which may be changed in a thread."""
    _linger_task: asyncio.Task[None] | None = None
    _is_closed: bool = False

    def __post_init__(self) -> None:
        self.batch_sender.on_written = self._schedule_linger

    async def add_rows(self, rows: int, make: Callable[[], Sequence[RecordColumns]]) -> None:
        """Add rows, which `make` encodes, in a thread if there are many."""
        await self.batch_sender.wait_for_room()
        now_s = asyncio.get_running_loop().time()
        async with self._lock, self._fail_on_error():
            full = await self.kernel_executor.run(rows, partial(self._build_batches, make, now_s))
            self.row_count += rows
            self.batch_sender.add_batches(full)
        self._schedule_linger()

    async def flush(self) -> None:
        """Wait until all rows are written."""
        async with self._lock, self._fail_on_error():
            seal = partial(self.batches.seal_before, float("inf"))
            self.batch_sender.add_batches(
                await self.kernel_executor.run(self.batches.row_count, seal)
            )
        await self.batch_sender.flush()

    @asynccontextmanager
    async def _fail_on_error(self) -> AsyncIterator[None]:
        """Fail all sending if the body fails or is cancelled, because rows may be missing then."""
        try:
            yield
        except BaseException as error:
            self.batch_sender.fail(error)
            raise

    async def close(self) -> None:
        """Stop writing, and cancel what is pending."""
        self._is_closed = True
        if self._linger_task is not None:
            self._linger_task.cancel()
            await asyncio.gather(self._linger_task, return_exceptions=True)
        await self.batch_sender.close()

    def _build_batches(
        self, make: Callable[[], Sequence[RecordColumns]], now_s: float
    ) -> list[SealedBatch]:
        full = [batch for records in make() for batch in self.batches.add_records(records, now_s)]
        if self.batches.byte_count > MAX_OPEN_BYTES:
            full += self.batches.seal_before(float("inf"))
        return full

    def _schedule_linger(self) -> None:
        """Schedule sending of open batches, for when they have waited long enough."""
        idle = self._linger_task is None or self._linger_task.done()
        since_s = self.batches.find_oldest(self.batch_sender.has_batch) if idle else None
        if since_s is not None and not self._is_closed and not self._lock.locked():
            self._linger_task = asyncio.create_task(self._send_lingered(since_s + self.linger_s))

    async def _send_lingered(self, at_s: float) -> None:
        """Send lingering batches at that time; a partition with a batch in flight can wait."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(at_s - loop.time())
        async with self._lock, self._fail_on_error():
            until_s = loop.time() - self.linger_s
            seal = partial(self.batches.seal_before, until_s, self.batch_sender.has_batch)
            self.batch_sender.add_batches(
                await self.kernel_executor.run(self.batches.row_count, seal)
            )
        loop.call_soon(self._schedule_linger)
