"""Topics of a broker as an independent client sees them: made, filled, and read to their ends.

The client is librdkafka's, which shares nothing with ours: what it reads is what is there. All of
it waits for what it asked for, and fails in bounded time.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

LONGEST_S = 180.0
"""A broker that was frozen may take a minute to reach its controller again."""
ATTEMPT_S = 30.0
"""A request that the broker has lost meanwhile is repeated after this."""
CREATION_PASSING = {KafkaError.INVALID_REPLICATION_FACTOR, KafkaError._TIMED_OUT}
"""A broker that was paused may be fenced until its controller has heard of it."""
PASSING = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}

QUIET = {"log_level": 0}  # tests take the broker away, and know it

Settings: TypeAlias = Mapping[str, str | int | float | bool]

Told: TypeAlias = Callable[["KafkaError | None", "Message[bytes, bytes]"], None]


@dataclass(frozen=True, slots=True)
class Record:
    """One of a topic, as it is given to a broker or comes from there."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0
    offset: int = -1
    """Where it is; a record that is to be written has none."""


class Topics:
    """Those of the broker at that address; `settings` are librdkafka's own, for secured ones."""

    def __init__(self, address: str, settings: Settings | None = None) -> None:
        self._settings: dict[str, Any] = {"bootstrap.servers": address, **QUIET, **(settings or {})}
        self._admin = AdminClient(self._settings)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> str:
        """Make it; underscores in names of configs are points."""
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=settings)
        deadline = time.monotonic() + LONGEST_S
        passing = set[int]()
        while True:
            try:
                settle(self._admin.create_topics([new], request_timeout=ATTEMPT_S))
                break
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.TOPIC_ALREADY_EXISTS and KafkaError._TIMED_OUT in passing:
                    break
                if code not in CREATION_PASSING or time.monotonic() > deadline:
                    raise
                passing.add(code)
                time.sleep(0.05)
        self._seen(topic, partitions)
        return topic

    def widen(self, topic: str, partitions: int) -> None:
        """Have that many partitions from now on."""
        settle(self._admin.create_partitions([NewPartitions(topic, partitions)]))
        self._seen(topic, partitions)

    def delete(self, topic: str) -> None:
        """Away with it."""
        settle(self._admin.delete_topics([topic], operation_timeout=LONGEST_S))
        self._seen(topic, 0)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Away with those of each partition whose offset is lower."""
        ends = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        settle(self._admin.delete_records(ends))

    def partitions(self, topic: str) -> list[int]:
        """Their numbers; none if there is no such topic."""
        found = self._admin.list_topics(timeout=LONGEST_S).topics.get(topic)
        return sorted(found.partitions) if found else []

    def names(self) -> set[str]:
        """Of all topics that there are."""
        return set(self._admin.list_topics(timeout=LONGEST_S).topics)

    def ends(self, topic: str, committed: bool = False) -> dict[int, int]:
        """The offset of each partition's next record; of the first that may yet be aborted."""
        return self._offsets(topic, OffsetSpec.latest(), committed)

    def begins(self, topic: str) -> dict[int, int]:
        """The offset of each partition's first record."""
        return self._offsets(topic, OffsetSpec.earliest(), False)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The offsets that the group has committed, of those partitions that have any."""
        client = self._consumer(group)
        try:
            asked = [TopicPartition(topic, partition) for partition in self.partitions(topic)]
            found = client.committed(asked, timeout=LONGEST_S)
            return {at.partition: at.offset for at in found if at.offset >= 0}
        finally:
            client.close()

    def write(self, topic: str, records: Iterable[Record], **settings: str | int) -> None:
        """Append them, each to its partition and in this order; return when all are there.

        The broker has to run: if it ends meanwhile, records may be there twice.
        """
        # With more requests at a time, a retried record, as for a newly created topic, would come
        # after later ones. An idempotent producer waits half a second or more for its id.
        ordered = {"max.in.flight": 1, "socket.timeout.ms": int(1000 * LONGEST_S)}
        producer = Producer(self._settings | ordered | dotted(settings))
        send(producer, topic, records)

    def transaction(self, topic: str, records: Iterable[Record], *, commit: bool) -> None:
        """Append them in a transaction of their own, and commit or abort it."""
        with_id = {"transactional.id": f"test-{uuid.uuid4().hex}"}
        producer = Producer(self._settings | with_id)
        producer.init_transactions(LONGEST_S)
        producer.begin_transaction()
        send(producer, topic, records)
        if commit:
            producer.commit_transaction(LONGEST_S)
        else:
            producer.abort_transaction(LONGEST_S)

    def begin(self, topic: str, records: Iterable[Record], identity: str = "") -> Producer:
        """Append them in a transaction, and leave it open."""
        named = {"transactional.id": identity or f"test-{uuid.uuid4().hex}"}
        producer = Producer(self._settings | named)
        producer.init_transactions(LONGEST_S)
        producer.begin_transaction()
        send(producer, topic, records)
        return producer

    def read(self, topic: str) -> list[Record]:
        """Read all committed records, one partition after the other, each in order.

        Fails if a transaction stays open, because a read_committed consumer cannot get past it.
        """
        self.settled(topic)
        return self._read(topic, True)

    def visible(self, topic: str, committed: bool = True) -> list[Record]:
        """Read the currently visible records: up to the first undecided one, or all."""
        return self._read(topic, committed)

    def values(self, topic: str) -> list[bytes | None]:
        """Those of all committed records, each partition in its order."""
        return [record.value for record in self.read(topic)]

    def settled(self, topic: str) -> None:
        """Wait until no transaction is open there.

        A broker says that a commit is done before its partitions have the marker of it.
        """
        deadline = time.monotonic() + LONGEST_S
        while (committed := self.ends(topic, committed=True)) != self.ends(topic):
            late = time.monotonic() > deadline
            assert not late, f"a transaction stays open in {topic}, past the offsets {committed}"
            time.sleep(0.01)

    def _seen(self, topic: str, partitions: int) -> None:
        """Wait until the broker reports the change to clients; its controller made it before."""
        deadline = time.monotonic() + LONGEST_S
        while len(found := self.partitions(topic)) != partitions:
            late = time.monotonic() > deadline
            assert not late, f"{topic} has {len(found)} partitions, and not {partitions}"
            time.sleep(0.01)
        if partitions:
            # A record that a leader does not take yet would be retried, and come after later ones.
            self.ends(topic)

    def _read(self, topic: str, committed: bool) -> list[Record]:
        ends = self.ends(topic, committed)
        client = self._consumer(uuid.uuid4().hex, committed)
        try:
            return reading(client, topic, ends)
        finally:
            client.close()

    def _consumer(self, group: str, committed: bool = True) -> Consumer:
        isolation = "read_committed" if committed else "read_uncommitted"
        own = {"group.id": group, "isolation.level": isolation, "auto.offset.reset": "error"}
        quick = {"enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 50}
        return Consumer(self._settings | own | quick)

    def _offsets(self, topic: str, spec: OffsetSpec, committed: bool) -> dict[int, int]:
        levels = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(topic, partition): spec for partition in self.partitions(topic)}
        deadline = time.monotonic() + LONGEST_S
        while True:
            found = self._admin.list_offsets(asked, isolation_level=levels[not committed])
            try:
                return {at.partition: each.result(LONGEST_S).offset for at, each in found.items()}
            except KafkaException as error:
                # Shortly after a restart or the creation, a broker knows less than its clients.
                if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def reading(client: Consumer, topic: str, ends: Mapping[int, int]) -> list[Record]:
    """Read the records of the partitions before those ends."""
    first = [TopicPartition(topic, partition, 0) for partition in ends]
    lows = {at.partition: client.get_watermark_offsets(at, LONGEST_S)[0] for at in first}
    client.assign([TopicPartition(topic, partition, low) for partition, low in lows.items()])
    left = {partition for partition, end in ends.items() if end > lows[partition]}
    records: dict[int, list[Record]] = {partition: [] for partition in sorted(ends)}
    while left:
        message = client.poll(LONGEST_S)
        assert message is not None, f"nothing came of the partitions {sorted(left)} of {topic}"
        error, partition = message.error(), message.partition()
        assert partition is not None
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            left.discard(partition)  # markers of transactions come after the last record
        elif (record := received(message)).offset < ends[partition]:
            records[partition].append(record)
            if record.offset + 1 >= ends[partition]:
                left.discard(partition)
    return [record for each in records.values() for record in each]


def received(message: Message[bytes, bytes]) -> Record:
    """A message that is no error."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    at_ms = message.timestamp()[1]
    return Record(message.value(), message.key(), partition, tuple(headers), at_ms, offset)


def send(producer: Producer, topic: str, records: Iterable[Record]) -> None:
    """Append them; return when the broker has them all."""
    refused: list[KafkaError] = []

    def told(error: KafkaError | None, _: Message[bytes, bytes]) -> None:
        if error is not None:
            refused.append(error)

    for record in records:
        while not queued(producer, topic, record, told):
            producer.poll(1.0)
        producer.poll(0)
    assert not producer.flush(LONGEST_S), "the broker does not take what it is sent"
    assert not refused, refused[0]


def queued(producer: Producer, topic: str, record: Record, told: Told) -> bool:
    """Whether there was room for it."""
    try:
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            on_delivery=told,
            timestamp=record.timestamp_ms,
            headers=[*record.headers],
        )
    except BufferError:
        return False
    return True


def settle(futures: Mapping[Any, Future[Any]]) -> None:
    """Wait until each is done; raises what any could not do."""
    for future in futures.values():
        future.result(LONGEST_S)


def dotted(settings: Mapping[str, str | int]) -> dict[str, str | int]:
    """Names of settings as librdkafka writes them."""
    return {name.replace("_", "."): value for name, value in settings.items()}
