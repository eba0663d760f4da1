"""A partition as it is read, step by step: answers and times are handed in, no broker is there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.kafka.edges import Moment, Offsets
from headrace.connectors.kafka.source.beside import Beside
from headrace.connectors.kafka.source.chunks import Maker
from headrace.connectors.kafka.source.leaders import GONE_S, Leaderless, Vanishing
from headrace.connectors.kafka.source.limit import Limit
from headrace.connectors.kafka.source.places import Partition, Place, Seen
from headrace.connectors.kafka.source.starts import Ends, Questions
from headrace.connectors.kafka.source.tracks import Answer, OtherRecord, Track
from headrace.connectors.kafka.source.values import Raw
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.messages import Split
from headrace.core.pipeline.text import Text
from headrace.core.types import BINARY, Field, Schema
from tests.kafka.built import batch, mark

MAKER = Maker(Raw(Schema((Field("v", BINARY),))), Beside({}), ("v",))


def track(offset: int = 0, last: Seen | None = None, stop: int | None = None) -> Track:
    return Track(Split("s", "t-0"), Place(offset, last, stop))


def answer(
    *data: bytes, end: int, stable: int | None = None, aborted: Sequence[tuple[int, int]] = ()
) -> Answer:
    return Answer(end, end if stable is None else stable, tuple(aborted), b"".join(data))


def give(
    each: Track, now: float = 0.0, records: int = 1000, most: int | None = None
) -> list[bytes]:
    """Make a chunk of what waits, and give it."""
    load = each.load(records, 1 << 20)
    (made,) = MAKER.make([load], most)
    if not made.whole:
        each.rewind(made.place.offset)
    each.gave(made, now)
    return [row[0] for row in made.chunk.frame.rows()]


def test_what_was_fetched_waits_and_nothing_more_is_asked_for_before_it_is_taken() -> None:
    each = track()
    assert each.came(answer(batch(0, [b"a", b"b"]), end=5), 1.0)
    assert (each.waits, each.fetch_at, each.place.offset, each.lag) == (True, 2, 0, 5)
    load = each.load(1000, 1000)
    assert (each.waits, each.is_settled) == (False, False)
    (made,) = MAKER.make([load])
    each.gave(made, 2.0)
    assert (each.place, each.is_settled, each.lag) == (Place(2, Seen(1, 1001)), True, 3)
    assert each.exhausted_since() is None


def test_it_is_exhausted_since_its_last_rows_were_taken() -> None:
    each = track()
    assert each.exhausted_since() is None
    each.came(answer(end=0), 1.0)
    assert each.exhausted_since() == 1.0
    each.came(answer(end=0), 2.0)
    assert each.exhausted_since() == 1.0
    each.came(answer(batch(0, [b"a"]), end=1), 3.0)
    assert each.exhausted_since() is None
    give(each, 7.0)
    assert each.exhausted_since() == 7.0
    each.lost()
    assert each.exhausted_since() is None
    each.came(answer(end=1), 9.0)
    assert each.exhausted_since() == 9.0


def test_marks_and_aborted_records_are_passed_over_with_a_chunk_of_no_rows() -> None:
    each = track()
    aborted = batch(0, [b"x"], producer=1, transactional=True) + mark(1, 1, commit=False)
    assert each.came(answer(aborted, end=2, aborted=[(1, 0)]), 1.0)
    assert each.waits
    assert give(each) == []
    assert (each.place, each.waits) == (Place(2), False)


def test_what_is_hidden_behind_rows_is_passed_over_with_them() -> None:
    each = track()
    whole = batch(0, [b"x"], producer=1, transactional=True) + mark(1, 1, commit=True)
    each.came(answer(whole, end=2), 1.0)
    assert give(each) == [b"x"]
    assert each.place == Place(2, Seen(0, 1000))


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
    each.came(answer(batch(0, [b"a", b"b"]), tail, end=10), 1.0)
    assert each.is_through
    values: list[bytes] = []
    while not each.has_ended:
        assert each.waits
        values += give(each, records=1)
    assert values[:2] == [b"a", b"b"]
    assert values[2:] in ([], [b"c", b"d"])
    assert each.place.offset == 4


def test_the_record_that_was_read_last_is_looked_at_again() -> None:
    each = track(2, Seen(1, 1001))
    assert each.next_fetch == 1
    assert each.came(answer(batch(0, [b"a", b"b", b"c"]), end=3), 1.0)
    assert (each.next_fetch, give(each)) == (3, [b"c"])

    other = track(2, Seen(1, 1001))
    with pytest.raises(OtherRecord) as error:
        other.came(answer(batch(0, [b"a", b"b", b"c"], timestamp=7000), end=3), 1.0)
    assert (error.value.previous, error.value.timestamp) == (Seen(1, 1001), 7001)

    compacted = track(2, Seen(1, 1001))
    assert compacted.came(answer(batch(0, [b"a", b"c"], deltas=[0, 2]), end=3), 1.0)
    assert give(compacted) == [b"c"]


def test_an_answer_that_has_only_the_last_record_brings_nothing() -> None:
    each = track(2, Seen(1, 1001))
    assert not each.came(answer(batch(0, [b"a", b"b"]), end=2), 1.0)
    assert (each.waits, each.next_fetch) == (False, 2)


def test_reading_moves_over_a_gap_and_back() -> None:
    each = track(5, Seen(4, 1000))
    each.move(9)
    assert each.next_fetch == 9
    assert give(each) == []
    assert each.place.offset == 9
    each.move(3)
    assert (each.place, each.next_fetch, each.waits) == (Place(3), 3, False)


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
        at = each.next_fetch
        if not each.waits and not each.is_through:
            data = [b for start, b in log if start + len(b) >= at and _ends(start, sizes) > at]
            each.came(answer(*data[:take], end=end), 0.0)
        if each.waits:
            values += give(each, records=take, most=most)
        each = track(each.place.offset, each.place.last, each.place.stop) if take == 3 else each
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


ENDS = Ends(earliest=10, latest=100)


@pytest.mark.parametrize(
    ("start", "stop", "ends", "place"),
    [
        ("earliest", None, ENDS, Place(10)),
        ("latest", None, ENDS, Place(100)),
        ("latest", "latest", ENDS, Place(100, stop=100)),
        ("earliest", "latest", Ends(5, 5), Place(5, stop=5)),
        (Offsets({"": {0: 17}}), Offsets({"": {0: 50}}), ENDS, Place(17, stop=50)),
        (Offsets({"": {1: 17}}), Offsets({"": {0: 500}}), ENDS, Place(10, stop=100)),
        (Offsets({"": {0: 60}}), Offsets({"": {0: 50}}), ENDS, Place(60, stop=60)),
    ],
)
def test_where_reading_starts_and_stops(
    start: object, stop: object, ends: Ends, place: Place
) -> None:
    said = options(start=start, stop=stop)
    assert Questions(said, True).place(Partition("t", 0), ends) == place


def test_a_moment_without_later_records_is_the_end() -> None:
    from datetime import UTC, datetime

    at = Moment(datetime(2026, 1, 1, tzinfo=UTC))
    asked = Questions(options(start=at, stop=at), True)
    assert asked.times == {"earliest": -2, "latest": -1, "start": at.ms, "stop": at.ms}
    partition = Partition("t", 0)
    assert asked.place(partition, Ends(10, 100)) == Place(100, stop=100)
    assert asked.place(partition, Ends(10, 100, 30, 40)) == Place(30, stop=40)
    later = Questions(options(start=at, stop=at), False)
    assert later.times == {"earliest": -2, "latest": -1}
    assert later.place(partition, Ends(10, 100)) == Place(10, stop=10)


def test_a_partition_is_gone_when_it_was_away_for_long() -> None:
    one, two, vanishing = Partition("t", 0), Partition("t", 1), Vanishing()
    assert vanishing.gone([one], 0.0) == []
    assert vanishing.gone([one, two], GONE_S - 1) == []
    assert vanishing.gone([two], GONE_S) == []
    assert vanishing.gone([one, two], 2 * GONE_S - 1) == [two]


def test_that_a_partition_has_no_leader_is_told_once() -> None:
    at, leaderless = Partition("t", 0), Leaderless("s")
    assert leaderless.lines([at], 0.0) == []
    assert leaderless.lines([at], 6.0) == ["s: partition t-0 has had no leader for 6 s, waiting"]
    assert leaderless.lines([at], 9.0) == []
    assert leaderless.lines([], 10.0) == []
    assert leaderless.lines([at], 11.0) == []
    assert len(leaderless.lines([at], 20.0)) == 1


def test_what_was_taken_out_of_a_limit_and_not_needed_is_put_back() -> None:
    limit, changed = Limit(10), asyncio.Event()
    limit.watch(changed)
    assert (limit.take(8), limit.take(8)) == (8, 2)
    assert not limit.is_reached
    limit.put_back(8, 3)
    assert (limit.left, changed.is_set()) == (5, True)
    limit.put_back(2, 2)
    assert (limit.take(9), limit.is_reached) == (5, False)
    limit.put_back(5, 5)
    assert limit.is_reached
    assert Limit(None).take(5) is None
