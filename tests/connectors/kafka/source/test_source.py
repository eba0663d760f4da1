"""Reading a real broker: the same records as an independent client, whatever they are packed in."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any
from zlib import crc32

import pytest

from headrace.connectors.kafka.source.fetcher import MAX_PARTITION_BYTES
from headrace.core.api.failures import ConnectorError
from headrace.core.api.splits import Position, Split
from headrace.core.types.data_types import BIGINT, STRING, Field
from tests.support.kafka.broker import Broker
from tests.support.kafka.open_source import Came, node, opened, run
from tests.support.kafka.record_batches import CODECS
from tests.support.kafka.topics import Record, Topics

Fresh = Callable[..., str]

ALL = {
    "topic": "r_topic",
    "partition": "r_partition",
    "offset": "r_offset",
    "timestamp": "r_time",
    "key": "r_key",
    "headers": "r_headers",
}
NOW_MS = int(time.time() * 1000)
JSON = (Field("a", BIGINT), Field("b", STRING))


def some(count: int, partitions: int = 1) -> list[Record]:
    """Make distinct records."""
    return [
        Record(
            b"value %d" % at if at % 7 else b"",
            key=None if at % 3 else b"key %d" % at,
            partition=at % partitions,
            headers=(("at", b"%d" % at), ("none", None)) if at % 5 == 0 else (),
            timestamp_ms=NOW_MS + at,
        )
        for at in range(count)
    ]


def plain(count: int, partitions: int = 1, begin: int = 0) -> list[Record]:
    return [
        Record(b"%d" % at, partition=at % partitions, timestamp_ms=NOW_MS + at)
        for at in range(begin, begin + count)
    ]


def as_rows(records: list[Record], topic: str) -> list[tuple[object, ...]]:
    """Records as rows with all metadata."""
    return [
        (
            record.value,
            topic,
            record.partition,
            record.offset,
            datetime.fromtimestamp(record.timestamp_ms / 1000, UTC),
            None if record.key is None else record.key.decode(),
            [
                {"key": key, "value": None if value is None else value.decode()}
                for key, value in record.headers
            ],
        )
        for record in records
    ]


def all_rows(came: Came) -> list[tuple[object, ...]]:
    return [row for split in sorted(came.rows) for row in came.rows[split]]


def read(
    broker: Broker,
    at: Mapping[str, Position] | None = None,
    told: list[str] | None = None,
    **options: Any,
) -> Came:
    """Read a source up to the current end; `told` gets its messages."""

    async def reading() -> Came:
        source = node(broker.address, **{"stop": "latest", **options})
        async with opened(source, at=at, first=at is None, told=told) as it:
            return await it.to_the_end()

    came: Came = run(reading)
    return came


@pytest.mark.parametrize("codec", CODECS)
def test_all_of_a_record_comes_as_another_client_reads_it(
    broker: Broker, topics: Topics, fresh: Fresh, codec: str
) -> None:
    topic = topics.create(fresh(), 3)
    topics.write(topic, some(5000, 3), compression_type=codec, linger_ms=20)
    came = read(broker, topic=topic, metadata=ALL)
    assert all_rows(came) == as_rows(topics.read(topic), topic)
    assert sorted(came.ended) == [f"{topic}-{partition}" for partition in range(3)]
    assert came.count == 5000


def test_transactions_are_seen_as_another_client_sees_them(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh(), 2)
    for at in range(12):
        topics.transaction(topic, plain(20, 2, at * 20), commit=at % 3 > 0)
        topics.write(topic, plain(5, 2, 1000 + at * 5))
    stays_open = topics.begin(topic, plain(10, 2, 5000))
    topics.write(topic, plain(10, 2, 6000))
    counts = {"read_committed": 8 * 20 + 12 * 5, "read_uncommitted": 12 * 25 + 20}
    for isolation, count in counts.items():
        came = read(broker, topic=topic, isolation=isolation, metadata={"offset": "r_offset"})
        seen = topics.visible(topic, isolation == "read_committed")
        # Another client of the same broker may not have the last marker yet.
        rows = [(record.value, record.offset) for record in seen]
        assert all_rows(came) == rows
        assert len(rows) == count
    stays_open.abort_transaction(60)


def test_a_topic_of_aborted_records_is_read_to_its_end(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh(), 3)
    topics.transaction(topic, plain(40, 2), commit=False)
    topics.settled(topic)
    came = read(broker, topic=topic)
    assert (came.count, len(came.ended)) == (0, 3)
    assert came.positions == {
        f"{topic}-{partition}": f"offset={end} stop={end}"
        for partition, end in topics.ends(topic).items()
        if end
    }


def test_reading_resumes_after_any_chunk(broker: Broker, topics: Topics, fresh: Fresh) -> None:
    topic = topics.create(fresh(), 2)
    for at in range(6):
        topics.transaction(topic, plain(50, 2, at * 50), commit=at % 2 == 0)
        topics.write(topic, plain(7, 2, 1000 + at * 7))
    whole = [record.value for record in topics.read(topic)]

    async def reading(at: Mapping[str, Position], first: bool, enough: int) -> Came:
        source = node(broker.address, topic=topic, stop="latest")
        async with opened(source, at=at, first=first) as it:
            return await it.first(enough)

    for enough in (1, 40, 120, 180):
        came = run(partial(reading, {}, True, enough))
        positions = {f"{topic}-0": 0, f"{topic}-1": 0} | came.positions
        stops = {f"{topic}-{n}": end for n, end in topics.ends(topic).items()}
        for name, position in positions.items():
            if position == 0:
                positions[name] = f"offset=0 stop={stops[name]}"
        topics.write(topic, plain(3, 2, 9000))  # after the stop offset
        rest = run(partial(reading, positions, False, 10**9))
        both = [
            row[0]
            for split in sorted(positions)
            for row in came.rows.get(split, []) + rest.rows.get(split, [])
        ]
        assert [value for value in both if len(value) < 4 or value < b"9"] == whole


def test_a_record_that_is_bigger_than_a_fetch_comes(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh(), 3, max_message_bytes="8000000")
    big = bytes(range(256)) * (3 * MAX_PARTITION_BYTES // 256)
    for partition in range(3):
        values = [b"small", big + b"%d" % partition, b"small again"]
        records = [Record(value, partition=partition) for value in values]
        topics.write(topic, records, message_max_bytes=8_000_000)
    came = read(broker, topic=topic)
    wanted = [
        value
        for partition in range(3)
        for value in (b"small", big + b"%d" % partition, b"small again")
    ]
    # The difference of records of megabytes would be shown in full.
    assert [(len(value), crc32(value)) for value in came.values] == [
        (len(value), crc32(value)) for value in wanted
    ]


def test_bad_json_is_reported_with_offsets_and_nulls_are_skipped(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    values = [b'{"a":1}', b"", None, b'{\n"a":2,"b":"x"}', b"nonsense\n", b'{"a":"y"}', b'{"a":3}']
    topics.write(topic, [Record(value, key=b"k%d" % at) for at, value in enumerate(values)])
    told: list[str] = []
    came = read(
        broker,
        told=told,
        topic=topic,
        fields=JSON,
        format="json",
        metadata={"offset": "at", "key": "k"},
    )
    assert told == [
        "records: records without a row are left out",
        "records: 1 record without a row left out in total",
    ]
    assert all_rows(came) == [(1, None, 0, "k0"), (2, "x", 3, "k3"), (3, None, 6, "k6")]
    assert [(bad.position, bad.raw) for bad in came.bad] == [
        (1, ""),
        (4, "nonsense\n"),
        (5, '{"a":"y"}'),
    ]
    assert [bad.error for bad in came.bad][::2] == [
        "wanted a JSON object, got nothing",
        'column "a": wanted bigint, got "y"',
    ]


def test_csv_has_a_record_in_each_value_and_no_header(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    values = [b"1,x", b'2,"y\nz"', b'3,"open', b"4,w"]
    topics.write(topic, [Record(value) for value in values])
    came = read(broker, topic=topic, fields=JSON, format="csv", metadata={"offset": "at"})
    assert all_rows(came) == [(1, "x", 0), (2, "y\nz", 1), (4, "w", 3)]
    assert [bad.position for bad in came.bad] == [2]


def test_reading_covers_exactly_start_to_stop(broker: Broker, topics: Topics, fresh: Fresh) -> None:
    topic = topics.create(fresh(), 2)
    topics.write(topic, plain(100, 2))
    begin = datetime.fromtimestamp((NOW_MS + 20) / 1000, UTC).isoformat()
    end = datetime.fromtimestamp((NOW_MS + 60) / 1000, UTC).isoformat()

    def numbers(**options: Any) -> list[int]:
        return sorted(int(value) for value in read(broker, topic=topic, **options).values)

    assert numbers() == list(range(100))
    assert numbers(start="latest") == []
    assert numbers(start={"timestamp": begin}) == list(range(20, 100))
    assert numbers(start={"timestamp": begin}, stop={"timestamp": end}) == list(range(20, 60))
    assert numbers(start={"timestamp": "2999-01-01"}) == []
    assert numbers(stop={"timestamp": "2999-01-01"}) == list(range(100))
    # Of partition 0, which has the even numbers, those from the 10th to the 14th.
    assert numbers(start={"offsets": {0: 10, 1: 50}}, stop={"offsets": {0: 15}}) == list(
        range(20, 30, 2)
    )
    assert numbers(start={"offsets": {0: 48}}, stop={"offsets": {0: 1000, 1: 1}}) == [1, 96, 98]


@pytest.mark.parametrize(("edge", "partitions"), [("start", 1), ("stop", 3)])
def test_an_offset_of_a_partition_that_is_not_there_is_refused(
    broker: Broker, topics: Topics, fresh: Fresh, edge: str, partitions: int
) -> None:
    topic = topics.create(fresh(), partitions)
    named: dict[str, Any] = {edge: {"offsets": {0: 0, 7: 1}}}
    with pytest.raises(ConnectorError) as error:
        read(broker, topic=topic, **named)
    assert error.value.message == f'{edge}: there is no partition 7 of topic "{topic}"'
    assert error.value.hint in ("it has only partition 0", "it has the partitions 0 to 2")
    assert error.value.is_final


def test_no_more_rows_are_read_than_are_wanted(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh(), 2)
    values = [b"nonsense" if at % 3 == 0 else b'{"a":%d}' % at for at in range(300)]
    topics.write(topic, [Record(value, partition=at % 2) for at, value in enumerate(values)])

    async def reading() -> Came:
        source = node(broker.address, fields=JSON, format="json", topic=topic)
        async with opened(source, limit=50) as it:
            return await it.to_the_end()

    came: Came = run(reading)
    assert came.count - len(came.bad) == 50
    for split, rows in came.rows.items():
        partition = int(split[-1])
        assert [row[0] for row in rows] == [at for at in range(partition, 300, 2) if at % 3][
            : len(rows)
        ]


def test_what_there_is_no_more_is_an_error_or_passed_over(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    topics.write(topic, plain(10))
    topics.delete_records(topic, {0: 6})
    at = {f"{topic}-0": "offset=3 stop=10"}
    with pytest.raises(ConnectorError, match="wanted offset 3, there are 6 to 9") as error:
        read(broker, at, topic=topic)
    assert "earliest resumes at 6, latest at 10" in error.value.hint
    assert error.value.is_final
    going_on = read(broker, at, topic=topic, on_missing_offset="earliest")
    assert going_on.values == [b"6", b"7", b"8", b"9"]
    assert read(broker, at, topic=topic, on_missing_offset="latest").values == []


def test_what_was_read_last_may_have_expired(broker: Broker, topics: Topics, fresh: Fresh) -> None:
    topic = topics.create(fresh())
    topics.write(topic, plain(10))
    topics.delete_records(topic, {0: 6})
    at = {f"{topic}-0": f"offset=6 last=5@{NOW_MS + 5} stop=10"}
    assert read(broker, at, topic=topic).values == [b"6", b"7", b"8", b"9"]


@pytest.mark.parametrize(
    ("count", "told"), [(3, "there are 0 to 2"), (20, "the record at offset 9 was of")]
)
def test_a_topic_that_was_created_again_is_detected(
    broker: Broker, topics: Topics, fresh: Fresh, count: int, told: str
) -> None:
    topic = topics.create(fresh())
    topics.write(topic, plain(10))
    came = read(broker, topic=topic)
    assert came.positions == {f"{topic}-0": f"offset=10 last=9@{NOW_MS + 9} stop=10"}
    topics.delete(topic)
    topics.create(topic)
    topics.write(topic, [Record(b"new", timestamp_ms=NOW_MS + 5000)] * count)
    at: dict[str, Position] = {f"{topic}-0": f"offset=10 last=9@{NOW_MS + 9}"}
    with pytest.raises(ConnectorError, match=told) as error:
        _go_on(broker, topic, at)
    assert "recreated" in error.value.hint


def _go_on(broker: Broker, topic: str, at: Mapping[str, Position]) -> Came:
    async def reading() -> Came:
        async with opened(node(broker.address, topic=topic), first=False, at=at) as it:
            return await it.first(1)

    came: Came = run(reading)
    return came


def test_the_same_topic_is_recognized_by_its_last_record(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    topics.write(topic, plain(10), linger_ms=50)
    topics.write(topic, [Record(b"more")])
    at: dict[str, Position] = {f"{topic}-0": f"offset=7 last=6@{NOW_MS + 6}"}

    async def reading() -> Came:
        async with opened(node(broker.address, topic=topic), first=False, at=at) as it:
            return await it.first(4)

    assert run(reading).values == [b"7", b"8", b"9", b"more"]


def test_a_resumed_job_may_read_before_discovery(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    topics.write(topic, plain(10))

    async def reading() -> Came:
        async with opened(node(broker.address, topic=topic), discovered=False) as it:
            it.reading.assign([(Split("records", f"{topic}-0"), "offset=7 stop=10")], last=True)
            return await it.to_the_end()

    assert run(reading).values == [b"7", b"8", b"9"]
