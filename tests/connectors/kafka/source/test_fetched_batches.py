"""Batches of a fetch answer: found by their headers, hidden where aborted, unpacked in part."""

from __future__ import annotations

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.kafka.source.fetched_batches import (
    DamagedBatch,
    filter_visible,
    parse_batches,
)
from headrace.connectors.kafka.source.positions import (
    LastRecord,
    Partition,
    PartitionPosition,
    parse_partition,
    parse_position,
)
from headrace.connectors.kafka.source.record_unpacking import VALUES_ONLY, RecordUnpacker
from tests.support.kafka.record_batches import CODECS, batch, mark

ALL = RecordUnpacker(timestamps=True, keys=True, headers=True)


@given(st.integers(0, 2**62), st.none() | st.tuples(st.integers(0), st.integers()), st.integers(0))
def test_a_place_is_read_back_as_it_was_stored(
    offset: int, last: tuple[int, int] | None, stop: int
) -> None:
    for end in (None, stop):
        place = PartitionPosition(offset, None if last is None else LastRecord(*last), end)
        assert parse_position(place.stored_form) == place


def test_a_place_that_needs_no_more_is_a_number() -> None:
    assert PartitionPosition(17).stored_form == 17
    assert parse_position(None) == PartitionPosition(0)


def test_the_partition_is_after_the_last_hyphen_of_a_split() -> None:
    assert parse_partition("a-1-2-30") == Partition("a-1-2", 30)
    assert str(Partition("a-1-2", 30)) == "a-1-2-30"


def test_batches_are_found_by_their_headers_and_the_rest_of_an_answer_is_left() -> None:
    first, second = batch(5, [b"a", b"b"]), batch(7, [b"c"])
    found = parse_batches(first + second + batch(8, [b"d"])[:-1])
    assert [(each.base_offset, each.next_offset, each.record_count) for each in found] == [
        (5, 7, 2),
        (7, 8, 1),
    ]
    for size in range(len(first)):
        assert parse_batches(first[:size]) == []


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_as_they_were_written_whatever_they_are_packed_with(codec: str) -> None:
    values = [b"v" * 100, None, b""]
    keys = [b"k", b"", None]
    headers: list[list[tuple[str, bytes | None]]] = [
        [("a", b"1"), ("a", None)],
        [],
        [("b", b"")],
    ]
    data = batch(10, values, codec=codec, keys=keys, headers=headers)
    records = ALL.unpack_batches(parse_batches(data), 0, None)
    assert records.values == values
    assert records.keys == keys
    assert [list(each) for each in records.headers] == headers
    assert records.timestamps == [1000, 1001, 1002]
    assert [records.get_offset(row) for row in range(3)] == [10, 11, 12]
    assert (records.last_record, records.next_offset) == (LastRecord(12, 1002), 13)
    plain = VALUES_ONLY.unpack_batches(parse_batches(data), 0, None)
    assert (plain.values, plain.last_record, plain.next_offset) == (
        values,
        LastRecord(12, 1002),
        13,
    )


@pytest.mark.parametrize("unpacking", [VALUES_ONLY, ALL])
def test_a_batch_that_begins_earlier_and_ends_later_is_cut(unpacking: RecordUnpacker) -> None:
    data = batch(0, [b"0", b"1", b"2", b"3"]) + batch(4, [b"4", b"5"])
    records = unpacking.unpack_batches(parse_batches(data), 2, 5)
    assert records.values == [b"2", b"3", b"4"]
    assert [records.get_offset(row) for row in range(3)] == [2, 3, 4]
    assert records.next_offset == 5
    with pytest.raises(IndexError):
        records.get_offset(3)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5])
def test_no_more_records_are_taken_than_are_wanted(most: int) -> None:
    data = batch(0, [b"0", b"1", b"2"]) + batch(3, [b"3", b"4"])
    records = VALUES_ONLY.unpack_batches(parse_batches(data), 0, None, most)
    assert records.values == [b"%d" % n for n in range(most)]
    assert records.next_offset == most


def test_what_was_compacted_away_leaves_gaps_in_offsets_and_none_in_records() -> None:
    data = batch(10, [b"a", b"b"], deltas=[1, 4], until=20) + batch(20, [b"c"])
    records = VALUES_ONLY.unpack_batches(parse_batches(data), 0, None)
    assert records.values == [b"a", b"b", b"c"]
    assert [records.get_offset(row) for row in range(3)] == [11, 14, 20]
    (gap, _) = parse_batches(data)
    assert (gap.next_offset, gap.is_dense) == (20, False)


def test_damage_is_noticed() -> None:
    data = bytearray(batch(7, [b"value"]))
    data[-2] ^= 1
    with pytest.raises(DamagedBatch) as damaged:
        VALUES_ONLY.unpack_batches(parse_batches(bytes(data)), 0, None)
    assert damaged.value.offset == 7
    data[8:12] = b"\0\0\0\1"
    with pytest.raises(DamagedBatch):
        parse_batches(bytes(data))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_messages_of_old_brokers_are_read(magic: int, codec: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for offset in range(3):
        builder.append(offset, 5, b"k", b"value %d" % offset)
    built = builder.build()
    if codec:
        built[:8] = (2).to_bytes(8, "big")  # As a broker numbers what is packed.
    records = VALUES_ONLY.unpack_batches(parse_batches(bytes(built)), 1, None)
    assert records.values == [b"value 1", b"value 2"]
    assert [records.get_offset(row) for row in range(2)] == [1, 2]
    assert records.next_offset == 3


def in_transaction(base: int, producer: int, count: int = 1) -> bytes:
    return batch(base, [b"%d" % producer] * count, producer=producer, transactional=True)


def seen(data: bytes, aborted: list[tuple[int, int]] | None) -> list[int]:
    return [each.base_offset for each in filter_visible(parse_batches(data), aborted)]


def test_an_aborted_transaction_is_hidden_up_to_its_mark_and_no_further() -> None:
    data = (
        in_transaction(0, 1)
        + in_transaction(1, 2)
        + in_transaction(2, 1)
        + mark(3, 1, commit=False)
        + in_transaction(4, 1)
        + mark(5, 1, commit=True)
        + mark(6, 2, commit=True)
        + batch(7, [b"plain"])
        + batch(8, [b"idempotent"], producer=1)
    )
    assert seen(data, [(1, 0)]) == [1, 4, 7, 8]
    assert seen(data, []) == [0, 1, 2, 4, 7, 8]
    assert seen(data, None) == [0, 1, 2, 4, 7, 8]


def test_one_producer_aborts_again_and_again() -> None:
    data = b"".join(
        in_transaction(at, 1) + mark(at + 1, 1, commit=at % 4 == 2) for at in range(0, 12, 2)
    )
    assert seen(data, [(1, 8), (1, 0), (1, 4)]) == [2, 6, 10]


def test_an_aborted_transaction_that_began_before_the_answer_is_hidden_in_it() -> None:
    data = in_transaction(50, 1) + mark(51, 1, commit=False) + in_transaction(52, 1)
    assert seen(data, [(1, 3)]) == [52]


def test_the_mark_of_another_producer_ends_nothing() -> None:
    data = in_transaction(0, 1) + mark(1, 2, commit=False) + in_transaction(2, 1)
    assert seen(data, [(1, 0)]) == []


def test_a_mark_that_lost_its_record_ends_nothing() -> None:
    # Compaction may leave the header of a batch, and nothing in it.
    data = in_transaction(0, 1) + batch(1, [], producer=1, transactional=True, until=2)
    assert seen(data, [(1, 0)]) == []
