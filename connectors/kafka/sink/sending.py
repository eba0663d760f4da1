"""Sending of sealed batches until each is written: the asynchronous shell around an outbox.

A permanent error is raised at the next call that adds batches or waits for them. The sender waits
for brokers that are away and partitions that are moving.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from aiokafka import errors as kafka

from headrace.connectors.kafka.errors import of_code, passes, refusal
from headrace.connectors.kafka.patience import Patience
from headrace.connectors.kafka.sink.batches import Batches, Place, Sealed, rows
from headrace.connectors.kafka.sink.link import UNKNOWN_S
from headrace.connectors.kafka.sink.outbox import Outbox
from headrace.connectors.kafka.sink.wire import Wire
from headrace.core.contracts import ConnectorError

GROUPED = (kafka.MessageSizeTooLargeError, kafka.RecordListTooLargeError)
"""Errors of a batch that is too large, although each of its rows may not be."""
BACKOFF_S = 0.1
MOST = 32 << 20
"""The maximum bytes that may wait to be written."""
SHOWN = 120


@dataclass(slots=True)
class Sending:
    """Sends the batches that `batches` seals. `written` is called after each request."""

    wire: Wire
    patience: Patience
    batches: Batches
    written: Callable[[], None] = lambda: None
    topics: set[str] = field(default_factory=set)
    """The topics that were written to."""
    _outbox: Outbox = field(default_factory=Outbox)
    _joined: set[Place] = field(default_factory=set)
    """The partitions of the transaction."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _failed: BaseException | None = None
    _unknown_s: float | None = None
    """The time since when a broker does not know a topic."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, batches: Sequence[Sealed]) -> None:
        """Add batches to send."""
        self._outbox.put(batches)
        self.topics.update(batch.place[0] for batch in batches)
        self._go_on()

    def has(self, place: Place) -> bool:
        """Whether a batch for this partition is waiting or in flight."""
        return self._outbox.has(place)

    @property
    def somewhere(self) -> Place:
        """One partition of the transaction."""
        return next(iter(self._joined))

    async def room(self) -> None:
        """Wait while too many bytes are pending."""
        while self._outbox.held > MOST and self._failed is None:
            await self._change()
        self._raise()

    async def flush(self) -> None:
        """Wait until all batches are written."""
        while not self._outbox.empty and self._failed is None:
            await self._change()
        self._raise()

    def fail(self, error: BaseException) -> None:
        """Stop sending, and raise the error in all waiting calls."""
        if self._failed is None:
            lost = isinstance(error, asyncio.CancelledError)
            self._failed = ConnectorError("writing was cancelled") if lost else error
        self._changed.set()

    async def close(self) -> None:
        """Stop sending, and cancel requests in flight."""
        self.fail(ConnectorError("the writer is closed"))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _raise(self) -> None:
        if self._failed is not None:
            raise self._failed

    def _go_on(self) -> None:
        """Start all requests that are possible now."""
        if self._failed is not None:
            return
        for node, batches in self._outbox.take(self.wire.leader).items():
            self._begin(self._send(node, batches))
        if not self._tasks and self._outbox.unled(self.wire.leader):
            self._begin(self._look())

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and self._failed is None:
            self._failed = error
        self._changed.set()
        self._go_on()
        self.written()

    async def _look(self) -> None:
        """Look up the missing leaders of partitions with waiting batches."""
        await self._pause()
        topics = self._outbox.unled(self.wire.leader)
        with suppress(kafka.KafkaError):
            found = await self.patience.watched(self.wire.topics(topics))
            for name, topic in found.items():
                if topic.is_unknown:
                    self._bear(name)

    async def _send(self, node: int, batches: list[Sealed]) -> None:
        """Send one request, and handle its response."""
        try:
            await self._join([batch.place for batch in batches])
            producer = self.batches.producer
            codes = await self.patience.watched(self.wire.produce(node, producer, batches))
        except kafka.KafkaError as error:
            if not passes(error):
                raise refusal(error, f"write to {_named(batches)}") from error
            for batch in batches:
                self._outbox.again(batch)
            await self._pause()
        else:
            results = [self._settled(batch, codes.get(batch.place, -1)) for batch in batches]
            if not all(results):
                await self._pause()
        finally:
            self._outbox.answered(node)

    async def _pause(self) -> None:
        await asyncio.sleep(BACKOFF_S)
        with suppress(kafka.KafkaError):
            await self.wire.refresh()

    async def _join(self, places: Sequence[Place]) -> None:
        """Add partitions to the transaction, if there is one."""
        producer = self.batches.producer
        new = [place for place in places if place not in self._joined]
        if not new or producer.id is None:
            return

        async def otherwise(error: kafka.KafkaError) -> None:
            if isinstance(error, kafka.UnknownTopicOrPartitionError):
                self._bear(new[0][0])
            await self.wire.moved(str(producer.id), error)

        await self.patience.insist(lambda: self.wire.add(producer, new), otherwise=otherwise)
        self._joined.update(new)

    def _settled(self, batch: Sealed, code: int) -> bool:
        """Handle the response for a batch; return whether no pause is needed."""
        error = of_code(code) if code else None
        if error is None or isinstance(error, kafka.DuplicateSequenceNumber):
            self._unknown_s = None
            self._outbox.written(batch)
            return True
        if isinstance(error, GROUPED):
            if batch.count == 1:
                raise _too_large(batch)
            self._outbox.again(batch, self.batches.halves(batch))
            return True
        if not passes(error):
            raise refusal(error, f'write to topic "{batch.place[0]}"')
        if isinstance(error, kafka.UnknownTopicOrPartitionError):
            self._bear(batch.place[0])
        self._outbox.again(batch)
        return False

    def _bear(self, topic: str) -> None:
        """Tolerate an unknown topic for a limited time. Raises ConnectorError after it."""
        now_s = asyncio.get_running_loop().time()
        self._unknown_s = self._unknown_s or now_s
        if now_s - self._unknown_s > UNKNOWN_S:
            raise refusal(kafka.UnknownTopicOrPartitionError(), f'write to topic "{topic}"')


def _named(batches: Sequence[Sealed]) -> str:
    topics = sorted({batch.place[0] for batch in batches})
    return ("topic " if len(topics) == 1 else "topics ") + ", ".join(f'"{t}"' for t in topics)


def _too_large(batch: Sealed) -> ConnectorError:
    """Build the error of a row that is too large for its topic."""
    _, key, value, _ = next(rows(batch))
    size = len(key or b"") + len(value or b"")
    which = f"with key {_shown(key)}" if key else f"that begins with {_shown(value or b'')}"
    return ConnectorError(
        f'topic "{batch.place[0]}" rejects a row of {size:,} bytes, {which}',
        "the topic's max.message.bytes says how large a row may be; compression makes it smaller",
        final=True,
    )


def _shown(data: bytes) -> str:
    text = data[:SHOWN].decode(errors="replace")
    return text + ("..." if len(data) > SHOWN else "")
