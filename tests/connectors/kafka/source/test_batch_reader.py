"""Topics as a batch reads them: ranges of offsets, settled when it begins."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.connectors.kafka.source import build_batch_reader
from headrace.connectors.kafka.source.batch_reader import TopicBatchReader
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import BatchSplit, Chunk
from headrace.core.types.data_types import BIGINT, Field
from tests.support.batch_splits import divided, read, rows
from tests.support.kafka.broker import Broker
from tests.support.kafka.open_source import node
from tests.support.kafka.topics import Record, Topics

Fresh = Callable[..., str]


@contextmanager
def pieces_of(address: str, least: int, **options: Any) -> Iterator[TopicBatchReader]:
    """Build the batch reader of a source; a range has at least that number of records."""
    with ThreadPoolExecutor(2) as threads:
        surroundings = RunContext(Path("."), "0" * 32, KernelExecutor(threads), pipeline_name="p")
        reader = build_batch_reader(node(address, **options), surroundings)
        assert isinstance(reader, TopicBatchReader)
        yield replace(reader, min_records=least)


def numbered(count: int, partitions: int = 1) -> list[Record]:
    return [Record(b"%d" % at, partition=at % partitions) for at in range(count)]


def values(chunks: list[Chunk]) -> Counter[int]:
    return Counter(int(bytes(row[0])) for row in rows(chunks))  # type: ignore[call-overload]


def test_large_partitions_are_cut_and_empty_ones_left_out(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh(), 3)
    topics.write(topic, numbered(1000, 2))
    with pieces_of(broker.address, 100, topic=topic, stop="latest") as reader:
        pieces = divided(reader, many=4)
        assert Counter(piece.split.name for piece in pieces) == {f"{topic}-0": 2, f"{topic}-1": 2}
        topics.write(topic, numbered(10, 3))
        found = read(reader, pieces)
        assert values(found) == Counter(range(1000))
        assert values(read(reader, pieces[::-1])) == Counter(range(1000))


def test_offsets_that_are_no_records_are_passed_over(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    topics.write(topic, [Record(b'{"x": 1}'), Record(None), Record(b'{"x": 2}')])
    topics.transaction(topic, numbered(50), commit=False)
    topics.transaction(topic, [Record(b'{"x": 3}')], commit=True)
    topics.write(topic, [Record(None)])
    of_json = {"fields": [Field("x", BIGINT)], "format": "json"}
    with pieces_of(broker.address, 7, topic=topic, stop="latest", **of_json) as reader:
        pieces = divided(reader, many=100)
        assert len(pieces) > 5
        assert rows(read(reader, pieces)) == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("start", "stop", "wanted"),
    [
        ({"offsets": {0: 3}}, {"offsets": {0: 7}}, range(3, 7)),
        ({"offsets": {0: 7}}, {"offsets": {0: 3}}, ()),
        ({"offsets": {0: 99}}, "latest", ()),
        ("latest", "latest", ()),
        ("earliest", {"offsets": {0: 99}}, range(10)),
    ],
)
def test_batch_pieces_cover_exactly_start_to_stop(
    broker: Broker, topics: Topics, fresh: Fresh, start: object, stop: object, wanted: range
) -> None:
    topic = topics.create(fresh())
    topics.write(topic, numbered(10))
    with pieces_of(broker.address, 2, topic=topic, start=start, stop=stop) as reader:
        assert values(read(reader, divided(reader, many=9))) == Counter(wanted)


def test_batch_rows_have_their_metadata(broker: Broker, topics: Topics, fresh: Fresh) -> None:
    topic = topics.create(fresh(), 2)
    topics.write(topic, numbered(6, 2))
    metadata = {"partition": "p", "offset": "o"}
    with pieces_of(broker.address, 1, topic=topic, stop="latest", metadata=metadata) as reader:
        found = sorted(rows(read(reader, divided(reader, many=9))))
    assert found == [(b"%d" % at, at % 2, at // 2) for at in range(6)]


def test_removed_records_are_reported(broker: Broker, topics: Topics, fresh: Fresh) -> None:
    topic = topics.create(fresh())
    topics.write(topic, numbered(10))
    with pieces_of(broker.address, 2, topic=topic, stop="latest") as reader:
        pieces = divided(reader, many=9)
        topics.delete_records(topic, {0: 5})
        with pytest.raises(ConnectorError):
            read(reader, pieces)


def test_a_jump_to_the_latest_record_is_made_once(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    topics.write(topic, numbered(10))
    options = {"on_missing_offset": "latest", "start": {"offsets": {0: 0}}}
    with pieces_of(broker.address, 2, topic=topic, stop="latest", **options) as reader:
        topics.delete_records(topic, {0: 5})
        pieces: list[BatchSplit] = list(divided(reader, many=9))
        assert values(read(reader, pieces)) == Counter()


def test_a_topic_that_is_not_there_is_refused(broker: Broker, fresh: Fresh) -> None:
    refused = pytest.raises(ConnectorError, match="there is no topic")
    with pieces_of(broker.address, 1, topic=fresh(), stop="latest") as reader, refused:
        asyncio.run(reader.plan_splits(1))
