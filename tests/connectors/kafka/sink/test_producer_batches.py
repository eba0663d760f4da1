"""Batches as brokers take them, and the order in which they are sent."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.kafka.sink.batch_compression import CODEC_NUMBERS
from headrace.connectors.kafka.sink.batch_queue import MAX_REQUEST_BYTES, BatchQueue
from headrace.connectors.kafka.sink.producer_batches import (
    SEQUENCE_COUNT,
    ProducerBatches,
    ProducerIdentity,
    RecordColumns,
    SealedBatch,
    TopicPartitionId,
    iterate_rows,
)

ALL = float("inf")


def records(partitions: Sequence[int], size: int = 10) -> RecordColumns:
    count = len(partitions)
    values = [b"%d" % n + bytes(size) for n in range(count)]
    return RecordColumns("t", partitions, [None] * count, values, list(range(count)))


def test_a_batch_is_sealed_when_it_is_full_and_numbered_for_its_producer() -> None:
    batches = ProducerBatches(ProducerIdentity(7, 3, "id"), batch_bytes=1000)
    full = batches.add_records(records([0, 1] * 20, size=100), now_s=5.0)
    rest = batches.seal_before(5.0)
    by_place: dict[TopicPartitionId, list[SealedBatch]] = {}
    for batch in (*full, *rest):
        by_place.setdefault(batch.partition, []).append(batch)
    assert set(by_place) == {("t", 0), ("t", 1)}
    for (_, number), sealed in by_place.items():
        assert [batch.first_sequence for batch in sealed] == [0, 8, 16]
        found = [value for batch in sealed for _, _, value, _ in iterate_rows(batch)]
        assert found == [b"%d" % n + bytes(100) for n in range(number, 40, 2)]


def test_every_codec_gives_back_what_went_in() -> None:
    for codec in CODEC_NUMBERS.values():
        batches = ProducerBatches(ProducerIdentity(1, 0), codec)
        headers = [[("a", b"1"), ("b", None)]] * 100
        one = RecordColumns("t", [0] * 100, [b"k"] * 100, [None] * 100, [17] * 100, headers)
        batches.add_records(one, now_s=0.0)
        (sealed,) = batches.seal_before(ALL)
        assert list(iterate_rows(sealed)) == [(17, b"k", None, [("a", b"1"), ("b", None)])] * 100
        assert (len(sealed.data) < 1000) == (codec > 0)


def test_halves_of_a_batch_are_numbered_as_it_was() -> None:
    batches = ProducerBatches(ProducerIdentity(1, 0))
    batches._next_sequences[("t", 0)] = SEQUENCE_COUNT - 2
    batches.add_records(records([0] * 5), now_s=0.0)
    (sealed,) = batches.seal_before(ALL)
    first, second = batches.split_batch(sealed)
    assert (
        first.first_sequence,
        first.record_count,
        second.first_sequence,
        second.record_count,
    ) == (SEQUENCE_COUNT - 2, 2, 0, 3)
    assert [*iterate_rows(first), *iterate_rows(second)] == list(iterate_rows(sealed))
    batches.add_records(records([0]), now_s=0.0)
    assert batches.seal_before(ALL)[0].first_sequence == 3


def test_only_what_has_waited_is_sealed_and_not_where_something_is_on_its_way() -> None:
    batches = ProducerBatches(ProducerIdentity(1, 0))
    batches.add_records(records([0]), now_s=1.0)
    batches.add_records(records([1, 2]), now_s=2.0)
    assert [batch.partition for batch in batches.seal_before(1.5)] == [("t", 0)]
    busy = {("t", 1)}
    assert batches.find_oldest(busy.__contains__) == 2.0
    assert [batch.partition for batch in batches.seal_before(2.0, busy.__contains__)] == [("t", 2)]
    assert batches.find_oldest(busy.__contains__) is None


def sealed(partition: int, first: int, size: int = 10) -> SealedBatch:
    return SealedBatch(("t", partition), first, 1, bytes(size))


def led(place: TopicPartitionId) -> int | None:
    return place[1] % 2


def test_a_broker_is_sent_one_request_at_a_time_and_a_batch_of_each_partition() -> None:
    outbox = BatchQueue()
    outbox.add([sealed(0, 0), sealed(0, 1), sealed(1, 0), sealed(2, 0)])
    taken = outbox.take_sendable(led)
    assert taken == {0: [sealed(0, 0), sealed(2, 0)], 1: [sealed(1, 0)]}
    assert outbox.take_sendable(led) == {}
    outbox.remove(sealed(2, 0))
    outbox.requeue(sealed(0, 0))
    outbox.release_broker(0)
    assert outbox.take_sendable(led) == {0: [sealed(0, 0)]}


def test_a_request_is_not_too_large_but_for_one_batch() -> None:
    outbox = BatchQueue()
    outbox.add([sealed(0, 0, MAX_REQUEST_BYTES), sealed(2, 0, MAX_REQUEST_BYTES + 1)])
    assert [batch.partition for batch in outbox.take_sendable(led)[0]] == [("t", 0)]
    outbox.release_broker(0)
    assert [batch.partition for batch in outbox.take_sendable(led)[0]] == [("t", 2)]


def test_what_nobody_leads_waits() -> None:
    outbox = BatchQueue()
    outbox.add([sealed(0, 0)])
    assert outbox.take_sendable(lambda _: None) == {}
    assert outbox.list_leaderless_topics(lambda _: None) == ["t"]
    assert outbox.list_leaderless_topics(led) == []


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("written again halves".split()))))
def test_batches_of_a_partition_are_written_in_their_order(events: list[tuple[int, str]]) -> None:
    outbox, written = BatchQueue(), dict[TopicPartitionId, list[int]]()
    outbox.add([sealed(partition, 10 * n) for n in range(5) for partition in range(4)])
    for number, what in [*events, *[(n, "written") for n in range(4)] * 20]:
        for node, batches in outbox.take_sendable(lambda place: place[1]).items():
            for batch in batches:
                if what == "again" and node == number:
                    outbox.requeue(batch)
                elif what == "halves" and batch.first_sequence % 10 == 0:
                    second = sealed(batch.partition[1], batch.first_sequence + 1)
                    outbox.requeue(
                        batch, [sealed(batch.partition[1], batch.first_sequence + 2), second][::-1]
                    )
                else:
                    written.setdefault(batch.partition, []).append(batch.first_sequence)
                    outbox.remove(batch)
            outbox.release_broker(node)
    assert outbox.is_empty and outbox.pending_bytes == 0
    assert all(firsts == sorted(firsts) for firsts in written.values())
    assert {n // 10 for firsts in written.values() for n in firsts} == set(range(5))
