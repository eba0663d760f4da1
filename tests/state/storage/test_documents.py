"""Small documents of another form: each is damaged, which one is said, and nothing is a bug."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.pipeline_file import check_pipeline
from headrace.connectors.kafka.sink.transactional_ids import TransactionalIds, parse_ids
from headrace.connectors.kafka.stored_documents import TransactionHandle, check_position
from headrace.connectors.registry import REGISTRY
from headrace.core.api.snapshots import DamagedSnapshot, RefusedSnapshot, SnapshotError
from headrace.core.api.stored_documents import MalformedDocument, convert_document
from headrace.core.checkpoint.connector_documents import check_handles
from headrace.core.plan import nodes
from headrace.core.spark.committer import decode_record
from headrace.state.storage.batch_home import hold_batch_home
from headrace.state.storage.checkpoint_location import read_location, record_location
from headrace.state.storage.checksummed_json import encode_checksummed
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.remote.ownership import BucketOwnership, OwnershipRecord
from tests.support.s3.failing_bucket import World
from tests.support.state.checkpointing_job import NOW
from tests.support.state.malformed import change, find_ways, read_document, write_document


def check_all(path: Path, use: Callable[[], object]) -> None:
    """Whatever is changed in a document, it is used, or damaged with its name."""
    document, damaged = read_document(path), 0
    for way in find_ways(document):
        for what, changed in change(document, way):
            write_document(path, changed)
            try:
                use()
            except RefusedSnapshot as error:
                assert f"{path} is damaged: " in error.message, f"{way} {what}"
                assert error.exit_status == 3
                damaged += 1
    assert damaged
    for size in range(0, 60, 7):
        path.write_bytes(encode_checksummed(document)[:size])
        with pytest.raises(RefusedSnapshot, match="is damaged: "):
            use()


def test_a_location(tmp_path: Path) -> None:
    home = Home(LocalDisk(), str(tmp_path), "bids")
    with home.hold(NOW):
        record_location(home, "an id", "s3://bucket/path")
    check_all(tmp_path / "bids" / "elsewhere.json", lambda: read_location(home))


def test_the_output_of_a_batch(tmp_path: Path) -> None:
    part = {"path": "part-1f3c09a2-0-17.jsonl", "size": 7}
    with hold_batch_home(str(tmp_path), "bids", NOW) as batch:
        batch.record({"sinks": {"out": {"handles": [{"parts": [part]}], "rows": 1}}})

        def read() -> None:
            document = batch.read_record()
            assert document is not None
            decode_record(document)

        check_all(Path(batch.record_path), read)


PIPELINE = """\
name: bids
sources: {numbers: {generate: {rows: 3, columns: {x: id}}}}
sinks: {out: {from: numbers, files: {path: out}}}
"""


def test_the_parts_of_a_batch_are_in_the_folder_of_their_sink(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    plan = check_pipeline(str(tmp_path / "p.yaml"), ()).plan
    assert plan is not None
    sink = plan.part("out")
    assert isinstance(sink, nodes.Sink)
    part = {"path": "day=1/part-1f3c09a2-0-17.jsonl", "size": 7}
    check_handles(sink, [{"parts": [part], "all": True}], REGISTRY, "output.json", "")
    for path in ("../part-1f3c09a2-0-17.jsonl", "/part-1f3c09a2-0-17.jsonl", "day=/../x", ""):
        with pytest.raises(DamagedSnapshot, match=r"output\.json is damaged: the output .* out: "):
            handle = {"parts": [{**part, "path": path}]}
            check_handles(sink, [handle], REGISTRY, "output.json", "")


@pytest.mark.parametrize("name", ["job.json", "complete.json"])
def test_the_records_of_a_job(tmp_path: Path, name: str) -> None:
    home = Home(LocalDisk(), str(tmp_path), "bids")
    with home.hold(NOW):
        home.ensure_job_id(NOW)
        returned = {"to": 1, "abandoned": 2}
        record = {"checkpoint": 1, "time": NOW, "rows": {"out": 2}, "returned": returned}
        home.write_completion_record(record)
    path = tmp_path / "bids" / "checkpoints" / name
    check_all(path, home.open_read_only if name == "job.json" else home.read_completion_record)


def test_a_job_id_is_a_name_and_no_path(tmp_path: Path) -> None:
    home = Home(LocalDisk(), str(tmp_path), "bids")
    with home.hold(NOW):
        home.ensure_job_id(NOW)
    path = tmp_path / "bids" / "checkpoints" / "job.json"
    for id in ("../../x", "/etc", "", ".", "a/b", "a\0"):
        write_document(path, {"job": id})
        with pytest.raises(RefusedSnapshot, match="is damaged"):
            home.open_read_only()


def test_a_lock_that_names_no_process_as_it_should(tmp_path: Path) -> None:
    home = Home(LocalDisk(), str(tmp_path), "bids")
    with home.hold(NOW):
        pass
    document = {"pid": 7, "host": "pegasus", "since": NOW}
    for way in find_ways(document):
        for _, changed in change(document, way):
            (tmp_path / "bids" / "lock").write_text(json.dumps(changed))
            is_held, holder = home.find_holder()
            assert not is_held
            assert holder is None or changed["pid"] == -7


def test_the_owner_of_a_bucket() -> None:
    record = OwnershipRecord("t0", "h0", 7, "pegasus", NOW, renewed=NOW)
    bucket = World().bucket
    BucketOwnership(bucket, record).acquire(take_over=False)
    found = bucket.read("owner.json")
    assert found is not None
    document = {key: value for key, value in json.loads(found.data).items() if key != "checksum"}
    for way in find_ways(document):
        for what, changed in change(document, way):
            changed.pop("format", None)
            bucket.put("owner.json", encode_checksummed(changed))
            try:
                BucketOwnership(bucket, record).acquire(take_over=True)
            except SnapshotError as error:
                assert "owner.json is damaged: " in error.message, f"{way} {what}"


def is_malformed(use: Callable[[], object]) -> bool:
    try:
        use()
    except MalformedDocument:
        return True
    return False


def test_the_documents_of_a_kafka_sink() -> None:
    ids: Any = dict(TransactionalIds("5eed", "out", 2, 3, 4).to_document())
    handle: dict[str, Any] = {"id": "a", "producer": 7, "epoch": 8, "subtask": 1, "slot": 2}
    handle |= {"topics": ["a"], "rows": 9, "opened_at": NOW}
    refused = 0
    for _, changed in (each for way in find_ways(ids) for each in change(ids, way)):
        refused += is_malformed(partial(parse_ids, changed))
    for _, changed in (each for way in find_ways(handle) for each in change(handle, way)):
        refused += is_malformed(partial(convert_document, changed, TransactionHandle))
    assert refused > 50


@pytest.mark.parametrize(
    ("name", "position"),
    [("a-0", "x"), ("a-0", "offset"), ("a-0", "offset=x"), ("a-0", "offset=1 last=2"), ("a", 1)],
)
def test_a_position_in_a_partition(name: str, position: str | int) -> None:
    with pytest.raises(MalformedDocument):
        check_position(name, position)
