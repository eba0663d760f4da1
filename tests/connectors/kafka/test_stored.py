"""A job from and to topics, as an older version left it, resumes with another broker.

The broker has the topics with the same records at the same offsets, but has never heard of the
transactions that the home names. So what was committed is not repeated, and what was prepared but
not committed is lost: the job says so and stops, or continues if it may (docs/kafka.md, Delivery).
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.connectors.kafka.sink.producer_batches import ProducerIdentity
from headrace.connectors.kafka.sink.transactional_ids import TransactionalIds, parse_ids
from headrace.connectors.kafka.sink.transactions import Transaction, describe_lost
from headrace.connectors.kafka.source.positions import LastRecord, PartitionPosition, parse_position
from headrace.core.checkpoint.manifest import CheckpointContent, parse_manifest
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.recovery.stored_kafka.stored_job import (
    BROKERS,
    HERE,
    JOB,
    Row,
    Rows,
    create_topics,
    delete_topics,
    feed,
    find_last_totals,
    read_output,
)
from tests.recovery.stored_kafka.write import TO_THE_END
from tests.support.cli.command_line import Headrace
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Topics

PENDING = "2083865fc7724b1db47bc410989d667d"
"""The id of the job whose transactions were not committed."""
WARN = tuple(
    word
    for sink in ("windows", "totals")
    for word in ("--set", f"sinks.{sink}.kafka.on_lost_transaction=warn")
)
OUTPUT: dict[str, dict[str, Rows]] = json.loads((HERE / "output.json").read_bytes())
"""By archive, the rows when it was written."""


@pytest.fixture
def filled(topics: Topics, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Topics]:
    """The topics of the job: all records in that of the source, none in those of the sinks."""
    monkeypatch.setenv(BROKERS, broker.address)
    delete_topics(topics)
    create_topics(topics)
    for phase in range(3):
        feed(topics, phase)
    yield topics
    delete_topics(topics)


def lay_out(folder: Path, kind: str) -> None:
    """Lay out the folder of the job as it was left."""
    with tarfile.open(HERE / f"{kind}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    shutil.copy(HERE / f"{JOB}.yaml", folder)


def read_home(folder: Path) -> Home:
    """Return the home of the job."""
    return Home(LocalDisk(), str(folder / ".headrace"), JOB)


def read_checkpoint(folder: Path, number: int) -> CheckpointContent:
    """Return the content of a checkpoint of the home."""
    store = read_home(folder).open_read_only()
    assert store is not None
    return parse_manifest(store.read_manifest(number))


def read_positions(content: CheckpointContent) -> dict[str, PartitionPosition]:
    """Return where the source was, by split."""
    splits = content.state.splits["orders"]
    return {split.name: parse_position(each.position) for split, each in splits.items()}


@pytest.mark.parametrize(("kind", "number"), [("stopped", 2), ("pending", 3)])
def test_positions_in_partitions_are_read_as_they_were_written(
    tmp_path: Path, kind: str, number: int
) -> None:
    lay_out(tmp_path, kind)
    content = read_checkpoint(tmp_path, number)
    begin_ms = 1_767_225_600_000
    assert read_positions(content) == {
        "stored-orders-0": PartitionPosition(26, LastRecord(24, begin_ms + 114_000)),
        "stored-orders-1": PartitionPosition(26, LastRecord(24, begin_ms + 116_000)),
        "stored-orders-2": PartitionPosition(26, LastRecord(24, begin_ms + 118_000)),
    }
    assert content.counters.parts["orders"].rows_in == 60


def test_handles_of_prepared_transactions_are_read_as_they_were_written(tmp_path: Path) -> None:
    lay_out(tmp_path, "pending")
    content = read_checkpoint(tmp_path, 3)
    opened = {
        (sink, subtask): Transaction(
            subtask,
            0,
            ProducerIdentity(producer, 0, f"headrace-{PENDING}-{sink}-1-{subtask}-0"),
            "2026-11-23 11:12:20",
        )
        for sink, subtask, producer in (
            ("windows", 1, 30),
            ("windows", 0, 31),
            ("totals", 0, 29),
            ("totals", 1, 28),
        )
    }
    rows = {"windows": 12, "totals": 4}
    assert [*content.handles] == [
        (sink, each.build_handle([f"stored-{sink}"], rows[sink]))
        for (sink, _), each in opened.items()
    ]


@pytest.mark.parametrize("sink", ["windows", "totals"])
def test_the_record_of_transactional_ids_is_read_as_it_was_written(
    tmp_path: Path, sink: str
) -> None:
    lay_out(tmp_path, "pending")
    home = read_home(tmp_path)
    noted = home.notes.read(sink)
    assert noted is not None
    assert parse_ids(noted) == TransactionalIds(PENDING, sink, 2, 3, 1)
    assert home.read_commit_record() == 2


@pytest.mark.parametrize("kind", ["stopped", "savepoint"])
def test_a_stopped_job_emits_each_remaining_row_once(
    headrace: Headrace, filled: Topics, kind: str
) -> None:
    lay_out(Path(), kind)
    saved = ("--from-savepoint", "saved") if kind == "savepoint" else ()
    ran = headrace("run", f"{JOB}.yaml", *TO_THE_END, *saved)
    assert ran.status == 0, ran.err
    judge_output(read_output(filled), OUTPUT["stopped"]["committed"])


def test_a_job_stops_if_the_broker_does_not_know_its_transactions(
    headrace: Headrace, filled: Topics
) -> None:
    lay_out(Path(), "pending")
    handles = dict(reversed(read_checkpoint(Path(), 3).handles))
    ran = headrace("run", f"{JOB}.yaml", *TO_THE_END)
    assert ran.status == 1
    assert describe_lost(handles["windows"]) in ran.err.replace("\n", " ")
    assert read_output(filled) == {"windows": [], "totals": []}


def test_a_job_may_resume_without_the_transactions_that_the_broker_does_not_know(
    headrace: Headrace, filled: Topics
) -> None:
    lay_out(Path(), "pending")
    handles = read_checkpoint(Path(), 3).handles
    ran = headrace("run", f"{JOB}.yaml", *TO_THE_END, *WARN)
    assert ran.status == 0, ran.err
    assert [message for _, each in handles if (message := describe_lost(each)) not in ran.err] == []
    before = OUTPUT["pending"]
    judge_output(read_output(filled), before["committed"], before["open"])


def judge_output(found: Rows, *earlier: Rows) -> None:
    """Check that the rows, with earlier ones, are each row of an undisturbed run, once."""
    wanted = OUTPUT["undisturbed"]["committed"]
    windows = [row for rows in (*earlier, found) for row in rows["windows"]]
    assert count_rows(windows) == count_rows(wanted["windows"])
    totals = [row for rows in (*earlier, found) for row in rows["totals"]]
    assert find_last_totals(totals) == {
        "a": {"k": "a", "n": 23, "s": 1069},
        "b": {"k": "b", "n": 23, "s": 1144},
        "c": {"k": "c", "n": 22, "s": 1090},
        "d": {"k": "d", "n": 22, "s": 1031},
    }


def count_rows(rows: list[Row]) -> Counter[str]:
    """Count equal rows."""
    return Counter(map(json.dumps, rows))
