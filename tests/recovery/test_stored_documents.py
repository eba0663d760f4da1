"""Small documents beside checkpoints, byte for byte as older versions have written them.

They were written by the code of e75e423 or later, and are never changed: what is called otherwise
in the code of today is stored, and read, under these names.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from headrace.connectors.files.file_identity import FileIdentity, parse_identity
from headrace.connectors.kafka.sink import transactional_ids
from headrace.connectors.kafka.sink.producer_batches import ProducerIdentity
from headrace.connectors.kafka.sink.transactions import Transaction
from headrace.connectors.kafka.source.positions import LastRecord, PartitionPosition, parse_position
from headrace.core.api.splits import Position, Progress, Split, SubtaskId
from headrace.core.checkpoint import manifest
from headrace.core.checkpoint.counters import JobCounters, PartCounters
from headrace.core.coordination.messages import Snapshot
from headrace.state.storage.home import Home
from headrace.state.storage.home_lock import LockHolder
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.remote.ownership import BucketOwnership, OwnershipRecord
from tests.support.s3.failing_bucket import World

LOCK = b'{"pid":7,"host":"pegasus","since":"2026-01-31T08:00:00Z"}\n'
HOLDER = LockHolder(7, "pegasus", "2026-01-31T08:00:00Z")
HELD = (
    b'{"checksum":"3469e7ff5fe4563b18ada0602513ffa3","format":1,"token":"t0","home":"h0","pid":7,'
    b'"host":"pegasus","since":"2026-01-31T08:00:00Z","renewed":"2026-01-31T09:00:00Z",'
    b'"about":12,"job":"5eed","over":false}\n'
)
OVER = (
    b'{"checksum":"8ea2c3607a3cbf9494610a0cd6cab25f","format":1,"token":"t0","home":"h0","pid":7,'
    b'"host":"pegasus","since":"2026-01-31T08:00:00Z","renewed":"2026-01-31T09:00:00Z",'
    b'"about":null,"job":null,"over":true}\n'
)


def test_a_lock_of_a_process_that_was_killed_is_read(tmp_path: Path) -> None:
    lock = tmp_path / "bids" / "lock"
    lock.parent.mkdir()
    lock.write_bytes(LOCK)
    with Home(LocalDisk(), str(tmp_path), "bids").hold("2026-01-31T08:00:00Z") as killed:
        assert killed == HOLDER
        assert json.loads(lock.read_bytes()).keys() == json.loads(LOCK).keys()


BEGUN = OwnershipRecord("t0", "h0", 7, "pegasus", HOLDER.since, renewed=HOLDER.since)


def test_the_owner_of_a_bucket_is_written_as_it_was() -> None:
    bucket = World().bucket
    owning = BucketOwnership(bucket, BEGUN)
    owning.acquire(take_over=False)
    owning.announce_manifest(12, "5eed", "2026-01-31T09:00:00Z")
    found = bucket.read("owner.json")
    assert found is not None and found.data == HELD
    owning.clear_pending()
    owning.release("2026-01-31T09:00:00Z")
    found = bucket.read("owner.json")
    assert found is not None and found.data == OVER


def test_the_owner_of_a_bucket_is_read_as_it_was_written() -> None:
    bucket = World().bucket
    bucket.put("owner.json", HELD)
    mine = BucketOwnership(bucket, replace(BEGUN, token="t1"))
    mine.acquire(take_over=False)
    assert (mine.previous_owner, mine.get_pending_number("5eed")) == (HOLDER, 12)
    bucket.put("owner.json", OVER)
    other = BucketOwnership(bucket, replace(BEGUN, token="t2", home="h2"))
    other.acquire(take_over=False)
    assert other.previous_owner is None


def test_what_was_counted_is_stored_in_its_order() -> None:
    stored = {"parts": {"orders": [1, 2, 3, 4, 5]}, "failed": {"scored": 6}}
    counted = PartCounters(rows_in=1, rows_out=2, bad_rows=3, late_rows=4, unfilled_rows=5)
    tallies = JobCounters({"orders": counted}, {"scored": 6})
    assert (tallies.to_document(), JobCounters.from_document(stored)) == (stored, tallies)


def test_positions_in_topics_are_stored_as_they_were() -> None:
    places: dict[Position, PartitionPosition] = {
        17: PartitionPosition(17),
        "offset=17 last=16@1732212345678": PartitionPosition(17, LastRecord(16, 1732212345678)),
        "offset=17 last=16@5 stop=200": PartitionPosition(17, LastRecord(16, 5), 200),
        "offset=17 stop=200": PartitionPosition(17, stop=200),
    }
    for stored, place in places.items():
        assert (place.stored_form, parse_position(stored)) == (stored, place)


IDENTITY = "size=9000 hashed=0-5216 sha256=ba7816bf8f01cfea414140de5dae2223"


def test_a_split_is_stored_with_and_without_an_identity() -> None:
    stored = {"split": "in/a.jsonl", "number": 3, "position": 5216, "at_us": 7, "rows": 2}
    stored |= {"bad": 1, "ended": False}
    split, progress = Split("s", "in/a.jsonl", 3), Progress(5216, 7, 2, 1)
    for document, known in (
        (stored, progress),
        (stored | {"identity": IDENTITY}, replace(progress, identity=IDENTITY)),
    ):
        snapshots = {SubtaskId(0, 0): Snapshot({split: known})}
        assert [*manifest._describe_splits("s", snapshots)] == [document]
        assert manifest._parse_splits("s", [document]) == {split: known}


def test_the_identity_of_a_file_is_stored_as_text() -> None:
    identity = FileIdentity(9000, 0, 5216, "ba7816bf8f01cfea414140de5dae2223")
    assert (str(identity), parse_identity(IDENTITY)) == (IDENTITY, identity)


def test_transactional_ids_are_stored_in_the_same_form() -> None:
    noted = {"job": "5eed", "sink": "out", "subtasks": 2, "slots": 3, "generation": 4}
    record = transactional_ids.TransactionalIds("5eed", "out", 2, 3, 4)
    assert (json.dumps(record.to_document()), transactional_ids.parse_ids(noted)) == (
        json.dumps(noted),
        record,
    )
    assert record.format_id(1, 2) == "headrace-5eed-out-4-1-2"


def test_a_transaction_is_stored_as_it_was() -> None:
    opened = Transaction(
        1, 2, ProducerIdentity(7, 8, "headrace-5eed-out-4-1-2"), "2026-01-31 08:00:00"
    )
    stored = {
        "id": "headrace-5eed-out-4-1-2",
        "producer": 7,
        "epoch": 8,
        "subtask": 1,
        "slot": 2,
        "topics": ["a", "b"],
        "rows": 9,
        "opened_at": "2026-01-31 08:00:00",
    }
    assert json.dumps(opened.build_handle(["a", "b"], 9)) == json.dumps(stored)
