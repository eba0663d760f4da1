"""The write path of one producer: rows are encoded, collected into batches, and sent.

Single rows are sent once they have lingered, but not while a batch of their partition is in flight;
so while a broker is busy rows are collected, and requests grow under load.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from headrace.connectors.kafka.sink.batches import Batches, Records, Sealed
from headrace.connectors.kafka.sink.sending import Sending
from headrace.core.bench import Bench

MOST_OPEN = 64 << 20
"""The maximum bytes in batches that are not full."""


@dataclass(slots=True)
class Outflow:
    """The rows that one producer writes."""

    batches: Batches
    sending: Sending
    bench: Bench
    linger_s: float
    rows: int = 0
    """The number of rows added."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Guards the batches, which may be changed in a thread."""
    _lingering: asyncio.Task[None] | None = None
    _closed: bool = False

    def __post_init__(self) -> None:
        self.sending.written = self._linger

    async def add(self, rows: int, make: Callable[[], Sequence[Records]]) -> None:
        """Add rows, which `make` encodes, in a thread if there are many."""
        await self.sending.room()
        now_s = asyncio.get_running_loop().time()
        async with self._lock, self._all_or_nothing():
            full = await self.bench.run(rows, partial(self._taken, make, now_s))
            self.rows += rows
            self.sending.put(full)
        self._linger()

    async def flush(self) -> None:
        """Wait until all rows are written."""
        async with self._lock, self._all_or_nothing():
            seal = partial(self.batches.seal_before, float("inf"))
            self.sending.put(await self.bench.run(self.batches.rows, seal))
        await self.sending.flush()

    @asynccontextmanager
    async def _all_or_nothing(self) -> AsyncIterator[None]:
        """Fail all sending if the body fails or is cancelled, because rows may be missing then."""
        try:
            yield
        except BaseException as error:
            self.sending.fail(error)
            raise

    async def close(self) -> None:
        """Stop writing, and cancel what is pending."""
        self._closed = True
        if self._lingering is not None:
            self._lingering.cancel()
            await asyncio.gather(self._lingering, return_exceptions=True)
        await self.sending.close()

    def _taken(self, make: Callable[[], Sequence[Records]], now_s: float) -> list[Sealed]:
        full = [batch for records in make() for batch in self.batches.add(records, now_s)]
        if self.batches.bytes > MOST_OPEN:
            full += self.batches.seal_before(float("inf"))
        return full

    def _linger(self) -> None:
        """Schedule sending of open batches, for when they have waited long enough."""
        idle = self._lingering is None or self._lingering.done()
        since_s = self.batches.waiting_since(self.sending.has) if idle else None
        if since_s is not None and not self._closed and not self._lock.locked():
            self._lingering = asyncio.create_task(self._ripen(since_s + self.linger_s))

    async def _ripen(self, at_s: float) -> None:
        """Send lingering batches at that time; a partition with a batch in flight can wait."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(at_s - loop.time())
        async with self._lock, self._all_or_nothing():
            until_s = loop.time() - self.linger_s
            seal = partial(self.batches.seal_before, until_s, self.sending.has)
            self.sending.put(await self.bench.run(self.batches.rows, seal))
        loop.call_soon(self._linger)
