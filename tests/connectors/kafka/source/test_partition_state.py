"""A partition as it is read, step by step: answers and times are handed in, no broker is there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.kafka.offset_bounds import OffsetBounds, TimeBound
from headrace.connectors.kafka.source.chunk_maker import ChunkMaker
from headrace.connectors.kafka.source.leaders import (
    DELETION_DELAY_S,
    DeletionDetector,
    LeaderlessTracker,
)
from headrace.connectors.kafka.source.metadata_columns import MetadataColumns
from headrace.connectors.kafka.source.offset_queries import OffsetQueries, PartitionBounds
from headrace.connectors.kafka.source.partition_state import (
    FetchedPartition,
    PartitionState,
    RecordChanged,
)
from headrace.connectors.kafka.source.positions import LastRecord, Partition, PartitionPosition
from headrace.connectors.kafka.source.split_reader import RowLimit
from headrace.connectors.kafka.source.value_decoding import RawValueDecoder
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.api.splits import Split
from headrace.core.pipeline.text import Text
from headrace.core.types.data_types import BINARY, Field, Schema
from tests.support.kafka.record_batches import batch, mark

MAKER = ChunkMaker(RawValueDecoder(Schema((Field("v", BINARY),))), MetadataColumns({}), ("v",))


def track(
    offset: int = 0, last: LastRecord | None = None, stop: int | None = None
) -> PartitionState:
    return PartitionState(Split("s", "t-0"), PartitionPosition(offset, last, stop))


def answer(
    *data: bytes, end: int, stable: int | None = None, aborted: Sequence[tuple[int, int]] = ()
) -> FetchedPartition:
    return FetchedPartition(end, end if stable is None else stable, tuple(aborted), b"".join(data))


def give(
    each: PartitionState, now: float = 0.0, records: int = 1000, most: int | None = None
) -> list[bytes]:
    """Make a chunk of what waits, and give it."""
    load = each.take_input(records, 1 << 20)
    (made,) = MAKER.make_chunks([load], most)
    if not made.is_complete:
        each.rewind_to(made.position.offset)
    each.record_emitted(made, now)
    return [row[0] for row in made.chunk.frame.rows()]


def test_nothing_is_fetched_while_fetched_batches_wait() -> None:
    each = track()
    assert each.add_response(answer(batch(0, [b"a", b"b"]), end=5), 1.0)
    assert (each.has_waiting, each.fetch_offset, each.position.offset, each.lag) == (True, 2, 0, 5)
    load = each.take_input(1000, 1000)
    assert (each.has_waiting, each.is_settled) == (False, False)
    (made,) = MAKER.make_chunks([load])
    each.record_emitted(made, 2.0)
    assert (each.position, each.is_settled, each.lag) == (
        PartitionPosition(2, LastRecord(1, 1001)),
        True,
        3,
    )
    assert each.idle_since() is None


def test_it_is_exhausted_since_its_last_rows_were_taken() -> None:
    each = track()
    assert each.idle_since() is None
    each.add_response(answer(end=0), 1.0)
    assert each.idle_since() == 1.0
    each.add_response(answer(end=0), 2.0)
    assert each.idle_since() == 1.0
    each.add_response(answer(batch(0, [b"a"]), end=1), 3.0)
    assert each.idle_since() is None
    give(each, 7.0)
    assert each.idle_since() == 7.0
    each.lose_leader()
    assert each.idle_since() is None
    each.add_response(answer(end=1), 9.0)
    assert each.idle_since() == 9.0


def test_marks_and_aborted_records_are_passed_over_with_a_chunk_of_no_rows() -> None:
    each = track()
    aborted = batch(0, [b"x"], producer=1, transactional=True) + mark(1, 1, commit=False)
    assert each.add_response(answer(aborted, end=2, aborted=[(1, 0)]), 1.0)
    assert each.has_waiting
    assert give(each) == []
    assert (each.position, each.has_waiting) == (PartitionPosition(2), False)


def test_hidden_batches_after_rows_are_skipped_with_them() -> None:
    each = track()
    whole = batch(0, [b"x"], producer=1, transactional=True) + mark(1, 1, commit=True)
    each.add_response(answer(whole, end=2), 1.0)
    assert give(each) == [b"x"]
    assert each.position == PartitionPosition(2, LastRecord(0, 1000))


@pytest.mark.parametrize(
    "tail",
    [
        mark(2, 1, commit=True) + mark(3, 1, commit=True),
        batch(2, [], until=4),
        batch(2, [b"c", b"d", b"e", b"f"]),
        batch(7, [b"after a hole"]),
    ],
)
def test_reading_ends_at_its_stop_whatever_stands_there(tail: bytes) -> None:
    each = track(stop=4)
    each.add_response(answer(batch(0, [b"a", b"b"]), tail, end=10), 1.0)
    assert each.is_fetched
    values: list[bytes] = []
    while not each.has_ended:
        assert each.has_waiting
        values += give(each, records=1)
    assert values[:2] == [b"a", b"b"]
    assert values[2:] in ([], [b"c", b"d"])
    assert each.position.offset == 4


def test_the_record_that_was_read_last_is_looked_at_again() -> None:
    each = track(2, LastRecord(1, 1001))
    assert each.next_fetch_offset == 1
    assert each.add_response(answer(batch(0, [b"a", b"b", b"c"]), end=3), 1.0)
    assert (each.next_fetch_offset, give(each)) == (3, [b"c"])

    other = track(2, LastRecord(1, 1001))
    with pytest.raises(RecordChanged) as error:
        other.add_response(answer(batch(0, [b"a", b"b", b"c"], timestamp=7000), end=3), 1.0)
    assert (error.value.previous, error.value.timestamp) == (LastRecord(1, 1001), 7001)

    compacted = track(2, LastRecord(1, 1001))
    assert compacted.add_response(answer(batch(0, [b"a", b"c"], deltas=[0, 2]), end=3), 1.0)
    assert give(compacted) == [b"c"]


def test_an_answer_that_has_only_the_last_record_brings_nothing() -> None:
    each = track(2, LastRecord(1, 1001))
    assert not each.add_response(answer(batch(0, [b"a", b"b"]), end=2), 1.0)
    assert (each.has_waiting, each.next_fetch_offset) == (False, 2)


def test_reading_moves_over_a_gap_and_back() -> None:
    each = track(5, LastRecord(4, 1000))
    each.move_to(9)
    assert each.next_fetch_offset == 9
    assert give(each) == []
    assert each.position.offset == 9
    each.move_to(3)
    assert (each.position, each.next_fetch_offset, each.has_waiting) == (
        PartitionPosition(3),
        3,
        False,
    )


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.integers(0, 12),
    st.none() | st.integers(0, 20),
    st.lists(st.tuples(st.integers(1, 6), st.none() | st.integers(1, 6)), max_size=30),
)
def test_every_record_is_given_once_however_it_is_cut(
    sizes: list[int], first: int, stop: int | None, cuts: list[tuple[int, int | None]]
) -> None:
    """With answers, loads and limits of any size, and positions stored in between."""
    log, end = [], 0
    for size in sizes:
        log.append((end, batch(end, [b"%d" % at for at in range(end, end + size)])))
        end += size
    first = min(first, end)
    each, values = track(first, stop=stop), []
    for take, most in cuts + [(100, None)] * 50:
        at = each.next_fetch_offset
        if not each.has_waiting and not each.is_fetched:
            data = [b for start, b in log if start + len(b) >= at and _ends(start, sizes) > at]
            each.add_response(answer(*data[:take], end=end), 0.0)
        if each.has_waiting:
            values += give(each, records=take, most=most)
        each = (
            track(each.position.offset, each.position.last_record, each.position.stop)
            if take == 3
            else each
        )
    wanted = range(first, end if stop is None else max(first, min(stop, end)))
    assert values == [b"%d" % at for at in wanted]


def _ends(start: int, sizes: list[int]) -> int:
    end = 0
    for size in sizes:
        end += size
        if end > start:
            return end
    return end


def options(**said: object) -> KafkaSource:
    read = KafkaSource.model_validate({"brokers": Text("b:1"), "topic": Text("t")})
    return read.model_copy(update=said)


ENDS = PartitionBounds(earliest=10, latest=100)


@pytest.mark.parametrize(
    ("start", "stop", "ends", "place"),
    [
        ("earliest", None, ENDS, PartitionPosition(10)),
        ("latest", None, ENDS, PartitionPosition(100)),
        ("latest", "latest", ENDS, PartitionPosition(100, stop=100)),
        ("earliest", "latest", PartitionBounds(5, 5), PartitionPosition(5, stop=5)),
        (
            OffsetBounds({"": {0: 17}}),
            OffsetBounds({"": {0: 50}}),
            ENDS,
            PartitionPosition(17, stop=50),
        ),
        (
            OffsetBounds({"": {1: 17}}),
            OffsetBounds({"": {0: 500}}),
            ENDS,
            PartitionPosition(10, stop=100),
        ),
        (
            OffsetBounds({"": {0: 60}}),
            OffsetBounds({"": {0: 50}}),
            ENDS,
            PartitionPosition(60, stop=60),
        ),
    ],
)
def test_where_reading_starts_and_stops(
    start: object, stop: object, ends: PartitionBounds, place: PartitionPosition
) -> None:
    said = options(start=start, stop=stop)
    assert OffsetQueries(said, True).find_start_position(Partition("t", 0), ends) == place


def test_a_moment_without_later_records_is_the_end() -> None:
    from datetime import UTC, datetime

    at = TimeBound(datetime(2026, 1, 1, tzinfo=UTC))
    asked = OffsetQueries(options(start=at, stop=at), True)
    assert asked.requested_times == {"earliest": -2, "latest": -1, "start": at.ms, "stop": at.ms}
    partition = Partition("t", 0)
    assert asked.find_start_position(partition, PartitionBounds(10, 100)) == PartitionPosition(
        100, stop=100
    )
    assert asked.find_start_position(
        partition, PartitionBounds(10, 100, 30, 40)
    ) == PartitionPosition(30, stop=40)
    later = OffsetQueries(options(start=at, stop=at), False)
    assert later.requested_times == {"earliest": -2, "latest": -1}
    assert later.find_start_position(partition, PartitionBounds(10, 100)) == PartitionPosition(
        10, stop=10
    )


def test_a_partition_is_gone_when_it_was_away_for_long() -> None:
    one, two, vanishing = Partition("t", 0), Partition("t", 1), DeletionDetector()
    assert vanishing.find_deleted([one], 0.0) == []
    assert vanishing.find_deleted([one, two], DELETION_DELAY_S - 1) == []
    assert vanishing.find_deleted([two], DELETION_DELAY_S) == []
    assert vanishing.find_deleted([one, two], 2 * DELETION_DELAY_S - 1) == [two]


def test_a_partition_without_leader_is_reported_once() -> None:
    at, leaderless = Partition("t", 0), LeaderlessTracker("s")
    assert leaderless.update_waiting([at], 0.0) == []
    assert leaderless.update_waiting([at], 6.0) == [
        "s: partition t-0 has had no leader for 6 s, waiting"
    ]
    assert leaderless.update_waiting([at], 9.0) == []
    assert leaderless.update_waiting([], 10.0) == []
    assert leaderless.update_waiting([at], 11.0) == []
    assert len(leaderless.update_waiting([at], 20.0)) == 1


def test_what_was_taken_out_of_a_limit_and_not_needed_is_put_back() -> None:
    limit, changed = RowLimit(10), asyncio.Event()
    limit.add_watcher(changed)
    assert (limit.take_records(8), limit.take_records(8)) == (8, 2)
    assert not limit.is_reached
    limit.put_back(8, 3)
    assert (limit.rows_left, changed.is_set()) == (5, True)
    limit.put_back(2, 2)
    assert (limit.take_records(9), limit.is_reached) == (5, False)
    limit.put_back(5, 5)
    assert limit.is_reached
    assert RowLimit(None).take_records(5) is None
