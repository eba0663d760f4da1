"""Topics that a batch writes: in transactions that are committed when all of it is written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.core.api.failures import ConnectorError
from tests.core.spark.test_sinks import FAILS
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Topics
from tests.support.spark.sink_runs import Batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 5000
SOURCE = f"""\
sources:
  numbers: {{generate: {{rows: {ROWS}, columns: {{id: id, k: id % 7}}}}}}
"""
BROKEN = """\
steps:
  broken: {from: numbers, map: {python: "broken.py:row", returns: {id: bigint}, mode: row}}
"""
TOTALS = """\
steps:
  totals: {from: numbers, key: k, aggregate: {many: count(*)}}
"""


class Written:
    """A pipeline that writes a topic, and what a reader sees of that."""

    def __init__(self, batches: Batches, broker: Broker, topics: Topics, topic: str) -> None:
        self.batches = batches
        self.topics = topics
        self.topic = topics.create(topic, 3)
        self.brokers = broker.address

    def text(
        self,
        options: str = "key: k, delivery: exactly_once",
        steps: str = "",
        rows: str = "numbers",
    ) -> str:
        """The pipeline: what it writes, and how."""
        kafka = f'{{brokers: "{self.brokers}", topic: {self.topic}, {options}}}'
        return f"{SOURCE}{steps}sinks:\n  topic: {{from: {rows}, kafka: {kafka}}}\n"

    def seen(self) -> Counter[int]:
        """Count how often each number occurs, once no transaction is open."""
        values = (json.loads(value or b"") for value in self.topics.values(self.topic))
        return Counter(value["id"] for value in values)


ALL = Counter(range(ROWS))


@pytest.fixture
def written(
    spark: SparkSession, tmp_path: Path, broker: Broker, topics: Topics, fresh: Callable[..., str]
) -> Written:
    (tmp_path / "broken.py").write_text(FAILS)
    return Written(Batches(tmp_path, spark), broker, topics, fresh("batch"))


def test_rows_are_committed_once_and_those_of_a_key_are_in_one_partition(written: Written) -> None:
    outcome = written.batches.run(written.text())
    assert outcome is not None and outcome.sink_rows == {"topic": ROWS}
    assert written.seen() == ALL
    pairs = {(record.key, record.partition) for record in written.topics.read(written.topic)}
    assert len(pairs) == 7


@pytest.mark.parametrize("fails", ["the topic's own rows", "those of a sink beside it"])
def test_nothing_is_seen_of_a_batch_that_fails_and_nothing_stays_open(
    written: Written, fails: str
) -> None:
    if fails == "the topic's own rows":
        text = written.text("delivery: exactly_once", BROKEN, "broken")
    else:
        text = written.text(steps=BROKEN) + "  files: {from: broken, files: {path: out}}\n"
    with pytest.raises(Exception, match="no more"):
        written.batches.run(text)
    assert not written.seen()


def test_what_was_prepared_and_not_recorded_is_aborted_by_the_next_run(written: Written) -> None:
    written.batches.die(written.text(), after_call=False)
    assert not written.topics.visible(written.topic)
    assert written.batches.run(written.text()) is not None
    assert written.seen() == ALL


@pytest.mark.parametrize(
    ("at", "after_call"), [("record", True), ("finish", False), ("forget", False)]
)
def test_what_was_recorded_is_committed_by_the_next_run(
    written: Written, at: str, after_call: bool
) -> None:
    written.batches.die(written.text(), at, after_call=after_call)
    assert written.batches.run(written.text()) is None
    assert written.seen() == ALL


def test_a_lost_transaction_fails_the_batch_run_which_can_be_repeated(
    written: Written,
) -> None:
    short = written.text("delivery: exactly_once, transaction_timeout: 1s")
    short += "settings: {checkpoint: {every: 500ms}}\n"
    written.batches.die(short, after_call=True)
    written.topics.settled(written.topic)
    with pytest.raises(ConnectorError, match=r"rows to topic .* are lost"):
        written.batches.run(short)
    assert not written.seen()
    assert written.batches.run(written.text(), fresh=True) is not None
    assert written.seen() == ALL


def test_at_least_once_is_seen_as_it_is_written(written: Written) -> None:
    outcome = written.batches.run(written.text("key: k"))
    assert outcome is not None and outcome.sink_rows == {"topic": ROWS}
    assert written.seen() == ALL


def test_changes_are_written_as_the_last_row_of_each_key(written: Written) -> None:
    outcome = written.batches.run(written.text("delivery: exactly_once", TOTALS, "totals"))
    assert outcome is not None and outcome.sink_rows == {"topic": 7}
    records = written.topics.read(written.topic)
    values = {record.key: json.loads(record.value or b"") for record in records}
    assert len(records) == len(values) == 7
    assert sum(value["many"] for value in values.values()) == ROWS


def test_rows_of_a_table_are_envelopes_without_a_row_before(written: Written) -> None:
    text = written.text("delivery: exactly_once", TOTALS, "totals")
    outcome = written.batches.run(text.replace("kafka:", "format: debezium_json, kafka:"))
    assert outcome is not None and outcome.sink_rows == {"topic": 7}
    changes = [json.loads(value or b"") for value in written.topics.values(written.topic)]
    rows = {change["after"]["k"]: change["after"]["many"] for change in changes}
    assert rows == {k: len(range(k, ROWS, 7)) for k in range(7)}
    assert [(change["op"], change["before"]) for change in changes] == [("c", None)] * 7
    assert [change["source"]["sequence"] for change in changes] == [1] * 7
