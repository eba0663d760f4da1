"""Sending of sealed batches until each is written: the asynchronous shell around an outbox.

A permanent error is raised at the next call that adds batches or waits for them. The sender waits
for brokers that are away and partitions that are moving.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import field

from aiokafka import errors as kafka

from headrace.connectors.kafka.errors import build_error, is_transient, translate_error
from headrace.connectors.kafka.retry import RequestRetry
from headrace.connectors.kafka.sink.batch_queue import BatchQueue
from headrace.connectors.kafka.sink.link import UNKNOWN_LIMIT_S
from headrace.connectors.kafka.sink.producer_batches import (
    ProducerBatches,
    SealedBatch,
    TopicPartitionId,
    iterate_rows,
)
from headrace.connectors.kafka.sink.wire import BrokerRequests
from headrace.core.api.failures import ConnectorError
from headrace.core.types.lazy_dataclass import dataclass

TOO_LARGE_ERRORS = (kafka.MessageSizeTooLargeError, kafka.RecordListTooLargeError)
"""Errors of a batch that is too large, although each of its rows may not be."""
RETRY_PAUSE_S = 0.1
MAX_PENDING_BYTES = 32 << 20
"""The maximum bytes that may wait to be written."""
MAX_SHOWN = 120


@dataclass(slots=True)
class BatchSender:
    """Sends the batches that `batches` seals. `on_written` is called after each request."""

    wire: BrokerRequests
    retry: RequestRetry
    batches: ProducerBatches
    on_written: Callable[[], None] = lambda: None
    topics: set[str] = field(default_factory=set)
    """The topics that were written to."""
    _queue: BatchQueue = field(default_factory=BatchQueue)
    _transaction_partitions: set[TopicPartitionId] = field(default_factory=set)
    """The partitions of the transaction."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _failure: BaseException | None = None
    _unknown_since_s: float | None = None
    """The time since when a broker does not know a topic."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add_batches(self, batches: Sequence[SealedBatch]) -> None:
        """Add batches to send."""
        self._queue.add(batches)
        self.topics.update(batch.partition[0] for batch in batches)
        self._start_requests()

    def has_batch(self, place: TopicPartitionId) -> bool:
        """Whether a batch for this partition is waiting or in flight."""
        return self._queue.has_batch(place)

    @property
    def any_partition(self) -> TopicPartitionId:
        """One partition of the transaction."""
        return next(iter(self._transaction_partitions))

    async def wait_for_room(self) -> None:
        """Wait while too many bytes are pending."""
        while self._queue.pending_bytes > MAX_PENDING_BYTES and self._failure is None:
            await self._wait_for_change()
        self._raise_failure()

    async def flush(self) -> None:
        """Wait until all batches are written."""
        while not self._queue.is_empty and self._failure is None:
            await self._wait_for_change()
        self._raise_failure()

    def fail(self, error: BaseException) -> None:
        """Stop sending, and raise the error in all waiting calls."""
        if self._failure is None:
            lost = isinstance(error, asyncio.CancelledError)
            self._failure = ConnectorError("writing was cancelled") if lost else error
        self._changed.set()

    async def close(self) -> None:
        """Stop sending, and cancel requests in flight."""
        self.fail(ConnectorError("the writer is closed"))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _start_requests(self) -> None:
        """Start all requests that are possible now."""
        if self._failure is not None:
            return
        for node, batches in self._queue.take_sendable(self.wire.find_leader).items():
            self._start_task(self._send_request(node, batches))
        if not self._tasks and self._queue.list_leaderless_topics(self.wire.find_leader):
            self._start_task(self._find_leaders())

    def _start_task(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and self._failure is None:
            self._failure = error
        self._changed.set()
        self._start_requests()
        self.on_written()

    async def _find_leaders(self) -> None:
        """Look up the missing leaders of partitions with waiting batches."""
        await self._pause_and_refresh()
        topics = self._queue.list_leaderless_topics(self.wire.find_leader)
        with suppress(kafka.KafkaError):
            found = await self.retry.watch_request(self.wire.request_topics(topics))
            for name, topic in found.items():
                if topic.is_unknown:
                    self._tolerate_unknown(name)

    async def _send_request(self, node: int, batches: list[SealedBatch]) -> None:
        """Send one request, and handle its response."""
        try:
            await self._join_transaction([batch.partition for batch in batches])
            producer = self.batches.producer
            codes = await self.retry.watch_request(self.wire.produce(node, producer, batches))
        except kafka.KafkaError as error:
            if not is_transient(error):
                raise translate_error(error, f"write to {_format_topics(batches)}") from error
            for batch in batches:
                self._queue.requeue(batch)
            await self._pause_and_refresh()
        else:
            results = [
                self._handle_result(batch, codes.get(batch.partition, -1)) for batch in batches
            ]
            if not all(results):
                await self._pause_and_refresh()
        finally:
            self._queue.release_broker(node)

    async def _pause_and_refresh(self) -> None:
        await asyncio.sleep(RETRY_PAUSE_S)
        with suppress(kafka.KafkaError):
            await self.wire.refresh_metadata()

    async def _join_transaction(self, places: Sequence[TopicPartitionId]) -> None:
        """Add partitions to the transaction, if there is one."""
        producer = self.batches.producer
        new = [place for place in places if place not in self._transaction_partitions]
        if not new or producer.transactional_id is None:
            return

        async def otherwise(error: kafka.KafkaError) -> None:
            if isinstance(error, kafka.UnknownTopicOrPartitionError):
                self._tolerate_unknown(new[0][0])
            await self.wire.forget_if_moved(str(producer.transactional_id), error)

        await self.retry.retry_request(
            lambda: self.wire.add_partitions(producer, new), otherwise=otherwise
        )
        self._transaction_partitions.update(new)

    def _handle_result(self, batch: SealedBatch, code: int) -> bool:
        """Handle the response for a batch; return whether no pause is needed."""
        error = build_error(code) if code else None
        if error is None or isinstance(error, kafka.DuplicateSequenceNumber):
            self._unknown_since_s = None
            self._queue.remove(batch)
            return True
        if isinstance(error, TOO_LARGE_ERRORS):
            if batch.record_count == 1:
                raise _build_too_large_error(batch)
            self._queue.requeue(batch, self.batches.split_batch(batch))
            return True
        if not is_transient(error):
            raise translate_error(error, f'write to topic "{batch.partition[0]}"')
        if isinstance(error, kafka.UnknownTopicOrPartitionError):
            self._tolerate_unknown(batch.partition[0])
        self._queue.requeue(batch)
        return False

    def _tolerate_unknown(self, topic: str) -> None:
        """Tolerate an unknown topic for a limited time. Raises ConnectorError after it."""
        now_s = asyncio.get_running_loop().time()
        self._unknown_since_s = self._unknown_since_s or now_s
        if now_s - self._unknown_since_s > UNKNOWN_LIMIT_S:
            raise translate_error(kafka.UnknownTopicOrPartitionError(), f'write to topic "{topic}"')


def _format_topics(batches: Sequence[SealedBatch]) -> str:
    topics = sorted({batch.partition[0] for batch in batches})
    return ("topic " if len(topics) == 1 else "topics ") + ", ".join(f'"{t}"' for t in topics)


def _build_too_large_error(batch: SealedBatch) -> ConnectorError:
    """Build the error of a row that is too large for its topic."""
    _, key, value, _ = next(iterate_rows(batch))
    size = len(key or b"") + len(value or b"")
    which = (
        f"with key {_format_short(key)}"
        if key
        else f"that begins with {_format_short(value or b'')}"
    )
    return ConnectorError(
        f'topic "{batch.partition[0]}" rejects a row of {size:,} bytes, {which}',
        "the topic's max.message.bytes says how large a row may be; compression makes it smaller",
        final=True,
    )


def _format_short(data: bytes) -> str:
    text = data[:MAX_SHOWN].decode(errors="replace")
    return text + ("..." if len(data) > MAX_SHOWN else "")
