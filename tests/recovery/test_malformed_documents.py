"""Documents of a home of another form than the one that was written: damage, and never a bug.

Their checksums are right: another version, a tool or a person wrote them.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.pipeline_file import check_pipeline
from headrace.connectors.registry import REGISTRY
from headrace.core.api.snapshots import SnapshotError
from headrace.core.checkpoint.compatibility import RestoreOptions, check_compatibility
from headrace.core.checkpoint.completion_record import count_sink_rows
from headrace.core.checkpoint.connector_documents import check_connector_documents
from headrace.core.checkpoint.manifest import restore_checkpoint
from headrace.core.checkpoint.manifest_document import list_state_names
from headrace.core.plan.nodes import Plan
from headrace.core.state_reader.state_schema import UnreadableState, read_state_schema
from headrace.state.rocks.backend import RocksBackend
from headrace.state.storage.checkpoint_repository import JobSnapshotStore
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.recovery.stored.site import HERE, STORED, lay_out
from tests.support.cli.command_line import Headrace
from tests.support.cli.processes import stop_behind
from tests.support.state.malformed import (
    change,
    find_shapes,
    find_ways,
    read_document,
    write_document,
)

OPTIONS = RestoreOptions(allow_lost_state=True, resume_drained=True)
PIPELINE = """\
name: formed
settings: {checkpoint: {every: 100ms, retain: 2}}
sources:
  numbers: {generate: {rows: 30000, rate: 10000/s, columns: {x: id}}}
steps:
  totals: {from: numbers, key: {k: x % 7}, window: {count: 5000}, aggregate: {n: count(*)}}
sinks:
  kept: {from: numbers, files: {path: out}}
  totals_out: {from: totals, files: {path: totals}}
"""
AT_ONCE = ("--set", "sources.numbers.generate.rate=10000000/s")
HOME = Path(".headrace/formed")


def lay_out_stored(folder: Path, name: str, kind: str) -> tuple[Plan, JobSnapshotStore]:
    """A job of an earlier version: its plan and its checkpoints."""
    stored = next(each for each in STORED if each.name == name)
    with tarfile.open(HERE / name / f"{kind}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    lay_out(folder, stored)
    (file,) = folder.glob("*.yaml")
    plan = check_pipeline(str(file), stored.waits).plan
    store = Home(LocalDisk(), str(folder / ".headrace"), name).open_read_only()
    assert plan is not None and store is not None
    return plan, store


def restore(
    store: JobSnapshotStore, number: int, plan: Plan, options: RestoreOptions = OPTIONS
) -> None:
    """Do everything that a run does with a manifest before its subtasks run."""
    document: Any = store.read_manifest(number)
    check_compatibility(number, document, plan, options)
    restored = restore_checkpoint(number, document, plan)
    check_connector_documents(restored, plan, REGISTRY, "", "")
    count_sink_rows(document)
    for step in document["states"]:
        try:
            read_state_schema(document, step)
        except UnreadableState:
            continue


def thaw_all(store: JobSnapshotStore, number: int, folder: Path) -> None:
    """Open all states of a manifest, without reading their rows."""
    document: Any = store.read_manifest(number)
    backend = RocksBackend(str(folder / "state"), 1 << 20)
    for states in (part for subtasks in document["states"].values() for part in subtasks):
        for state in states:
            backend.thaw(state, store)


@pytest.mark.parametrize(
    ("name", "kind", "under"),
    [
        ("changes", "pending", ""),
        ("joins", "rocksdb", "readings"),
        ("process", "memory", ""),
        ("windows", "rocksdb", "states"),
    ],
)
def test_no_form_of_a_manifest_is_a_bug(tmp_path: Path, name: str, kind: str, under: str) -> None:
    plan, store = lay_out_stored(tmp_path, name, kind)
    number = store.list_checkpoints()[-1]
    restore(store, number, plan)
    path = Path(store.get_manifest_path(number))
    document, refused = read_document(path), 0
    shapes = [way for way in find_shapes(document) if under in ("", way[0])]
    for way in shapes:
        for what, changed in change(document, way):
            write_document(path, changed)
            try:
                restore(store, number, plan)
                if way[0] == "states":
                    thaw_all(store, number, tmp_path)
            except SnapshotError as error:
                assert error.exit_status == 3, f"{way} {what}"
                refused += 1
            except Exception as error:
                raise AssertionError(f"{way} {what}: {error!r}") from error
    assert len(shapes) > 20
    assert refused


OPTIONAL_KEYS = ("shape", "laid_out", "shows", "job")
"""Keys of savepoints and checkpoints that say nothing more, or that early versions did not write.

Readers of savepoints ignore unknown keys, which later versions may write.
"""


def record_state_names(path: Path) -> dict[str, Any]:
    """Give a manifest of an earlier version the names of its states, as one of today has them."""
    document = read_document(path)
    states = document["states"].items()
    document["state_names"] = {step: list_state_names(subtasks) for step, subtasks in states}
    write_document(path, document)
    return document


@pytest.mark.parametrize(
    ("name", "kind"),
    [("changes", "memory"), ("ends", "pending"), ("process", "rocksdb")],
)
def test_no_renamed_key_is_passed_over(tmp_path: Path, name: str, kind: str) -> None:
    """A manifest with a renamed key is refused, or means the same without that key."""
    plan, store = lay_out_stored(tmp_path, name, kind)
    number = store.list_checkpoints()[-1]
    path = Path(store.get_manifest_path(number))
    document = record_state_names(path)
    restored = restore_checkpoint(number, store.read_manifest(number), plan)
    refused = 0
    for way in find_shapes(document):
        if way[0] in ("counts", "readings"):
            continue  # counters may be of parts that were removed; readings are for people
        for _, changed in (each for each in change(document, way) if each[0] == "renamed"):
            write_document(path, changed)
            try:
                restore(store, number, plan, RestoreOptions())
            except SnapshotError as error:
                assert error.exit_status == 3, way
                refused += 1
                continue
            found = restore_checkpoint(number, store.read_manifest(number), plan)
            assert found == restored or way[-1] in OPTIONAL_KEYS, way
    assert refused > 20


@pytest.mark.parametrize("kind", ["memory", "rocksdb"])
def test_no_state_is_lost_by_its_name(tmp_path: Path, kind: str) -> None:
    plan, store = lay_out_stored(tmp_path, "changes", kind)
    number = store.list_checkpoints()[-1]
    path = Path(store.get_manifest_path(number))
    document = record_state_names(path)
    for step, subtasks in document["states"].items():
        for state in subtasks[0][0]["states"]:
            for what, changed in change(document, ("states", step, 0, 0, "states", state)):
                write_document(path, changed)
                with pytest.raises(SnapshotError) as caught:
                    restore(store, number, plan)
                if what == "renamed":
                    assert f"{step} has an unknown state {state}_" in str(caught.value)
                if what == "removed":
                    assert f"{step} lacks its state" in str(caught.value)


def test_no_subtask_is_lost(tmp_path: Path) -> None:
    plan, store = lay_out_stored(tmp_path, "changes", "memory")
    number = store.list_checkpoints()[-1]
    path = Path(store.get_manifest_path(number))
    document = record_state_names(path)
    for way in (("states", "totals", 0), ("states", "totals", 0, 0)):
        write_document(path, dict(change(document, way))["removed"])
        with pytest.raises(SnapshotError, match="totals lacks its state in a subtask") as caught:
            restore(store, number, plan)
        assert caught.value.exit_status == 3


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that was stopped on its way."""
    folder = tmp_path_factory.mktemp("formed")
    (folder / "p.yaml").write_text(PIPELINE)
    stop_behind(folder, 3)
    return folder


def find_documents() -> dict[str, Path]:
    """The documents of the home."""
    checkpoints = HOME / "checkpoints"
    newest = max((checkpoints / "manifests").iterdir(), key=lambda path: int(path.stem))
    records = {name: checkpoints / name for name in ("job.json", "complete.json", "visible.json")}
    return {**records, "manifest": newest}


def restored_home(aside: Path) -> None:
    for name in (".headrace", "out", "totals"):
        shutil.rmtree(name, ignore_errors=True)
        if (aside / name).exists():
            shutil.copytree(aside / name, name)


COMMANDS = (
    ("jobs",),
    ("jobs", "--json"),
    ("state", "ls"),
    ("state", "ls", "formed", "--json"),
    ("state", "show", "formed", "totals"),
    ("state", "diff", "formed", "p.yaml"),
    ("state", "export", "formed"),
)


def check_told(ran: Any, what: str) -> None:
    """Nothing is a bug; a refusal is a line or two with what to do."""
    assert "bug in headrace" not in ran.err, f"{what}: {ran.err}"
    assert "Traceback" not in ran.err, f"{what}: {ran.err}"
    assert ran.status in (0, 1, 2, 3), what


@pytest.mark.parametrize("name", ["job.json", "complete.json", "visible.json", "manifest"])
def test_every_command_tells_of_a_damaged_document(job: Headrace, name: str, stopped: Path) -> None:
    path = find_documents()[name]
    document = read_document(path)
    for way in find_ways(document, maps=1):
        for what, changed in [*change(document, way)][:3]:
            restored_home(stopped)
            write_document(path, changed)
            told = f"{name}: {way} {what}"
            for command in COMMANDS if what == "removed" else ():
                check_told(job(*command), f"{told}: {command}")
            ran = job("run", "p.yaml", *AT_ONCE)
            check_told(ran, told)
            assert ran.status in (0, 3), f"{told}: {ran.err}"
            if ran.status == 3:
                assert str(path) in ran.err, f"{told}: {ran.err}"
                assert len(ran.err.splitlines()) == 2, f"{told}: {ran.err}"


@pytest.mark.parametrize("size", [0, 1, 20, 47, 60])
def test_a_document_that_is_cut_short_is_damaged(job: Headrace, size: int, stopped: Path) -> None:
    for name, path in find_documents().items():
        restored_home(stopped)
        path.write_bytes(path.read_bytes()[:size])
        ran = job("run", "p.yaml", *AT_ONCE)
        check_told(ran, name)
        assert ran.status == (0 if name == "visible.json" else 3), f"{name}: {ran.err}"


def test_a_savepoint_of_another_form_is_refused(job: Headrace) -> None:
    assert job("state", "export", "formed", "--to", "saved").status == 0
    path = Path("saved/savepoint.json")
    document = read_document(path)
    for way in find_shapes(document):
        for what, changed in change(document, way):
            write_document(path, changed)
            ran = job("state", "ls", "saved")
            check_told(ran, f"{way} {what}")
            if ran.status == 0:
                check_told(job("state", "show", "saved", "totals"), f"{way} {what}")
            elif ran.status != 3:
                raise AssertionError(f"{way} {what}: {ran.err}")


OUTSIDE = ("../../../outside", "/etc/passwd", "..", ".", "", "a\0b", "a/../../b", "./part-x")


@pytest.mark.parametrize("other", OUTSIDE)
@pytest.mark.parametrize("kind", ["pending", "rocksdb"])
def test_no_name_of_a_file_leads_out_of_its_folder(tmp_path: Path, kind: str, other: str) -> None:
    plan, store = lay_out_stored(tmp_path, "ends" if kind == "pending" else "changes", kind)
    number = store.list_checkpoints()[-1]
    path = Path(store.get_manifest_path(number))
    document, tried = read_document(path), 0
    for way in find_shapes(document):
        is_value = way[-1] in ("blob", "path") or (way[0] == "sources" and way[-1] == "split")
        is_key = way[-2:-1] == ("database",)
        if not (is_value or is_key):
            continue
        tried += 1
        for _, changed in change(document, way):
            holder: Any = changed
            for step in way[:-1]:
                holder = holder[step]
            if is_key:
                holder[other] = {"blob": "0" * 32, "bytes": 0}
            else:
                holder[way[-1]] = other
            write_document(path, changed)
            with pytest.raises(SnapshotError) as caught:
                restore(store, number, plan)
            assert caught.value.exit_status == 3, way
            break
    assert tried
