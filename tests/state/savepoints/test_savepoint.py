"""Savepoints: that all comes back from one, that other tools read it, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from headrace.core.api.snapshots import DamagedSnapshot, RefusedSnapshot, SnapshotError
from headrace.core.api.state import EXPIRY, KEY, SLOT, FrozenState, Redistribution
from headrace.state.memory.backend import MemoryBackend
from headrace.state.rocks.backend import RocksBackend
from headrace.state.savepoints import export
from headrace.state.savepoints.creation import take_savepoint
from headrace.state.savepoints.parquet_frames import decode_parquet, encode_parquet, get_sql_type
from headrace.state.savepoints.savepoint import NoSuchSnapshot, open_savepoint
from headrace.state.savepoints.snapshot_lookup import open_checkpoint, open_snapshot
from headrace.state.storage.checksummed_json import encode_checksummed
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.state.stored_state import ALL, NAME, NOW, ROWS, filed, keyed, taken

VALUES: dict[pl.DataType, st.SearchStrategy[object]] = {
    pl.Boolean(): st.booleans(),
    pl.Int8(): st.integers(-(2**7), 2**7 - 1),
    pl.Int16(): st.integers(-(2**15), 2**15 - 1),
    pl.Int32(): st.integers(-(2**31), 2**31 - 1),
    pl.Int64(): st.integers(-(2**63), 2**63 - 1),
    pl.Int128(): st.integers(-(2**127), 2**127 - 1),
    pl.UInt8(): st.integers(0, 2**8 - 1),
    pl.UInt32(): st.integers(0, 2**32 - 1),
    pl.UInt64(): st.integers(0, 2**64 - 1),
    pl.Float32(): st.floats(width=32),
    pl.Float64(): st.floats(),
    pl.Decimal(38, 6): st.decimals(-(10**30), 10**30, places=6),
    pl.Decimal(5, 0): st.decimals(-99_999, 99_999, places=0),
    pl.String(): st.text(st.characters(exclude_categories=["Cs"])),
    pl.Binary(): st.binary(),
    pl.Date(): st.dates(),
    pl.Time(): st.times(),
    pl.Datetime("us", "UTC"): st.datetimes(timezones=st.just(UTC)),
    pl.Datetime("us"): st.datetimes(),
    pl.Duration("us"): st.timedeltas(timedelta(-(10**5)), timedelta(10**5)),
    pl.Null(): st.none(),
    pl.Enum(["a", "b"]): st.sampled_from("ab"),
    pl.Categorical(): st.text("abc"),
    pl.Struct({}): st.just({}),
}

TYPES = st.recursive(
    st.sampled_from(list(VALUES)),
    lambda inner: st.one_of(
        inner.map(pl.List),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda types: pl.Struct({f"f{i}": type for i, type in enumerate(types)})
        ),
        inner.map(lambda type: pl.Array(type, 2)),
        inner.map(lambda type: pl.Map(pl.String(), type)),
    ),
    max_leaves=3,
)


def values(type: pl.DataType) -> st.SearchStrategy[object]:
    """Values of a type, and null."""
    found: st.SearchStrategy[Any]
    if isinstance(type, pl.List | pl.Array):
        assert isinstance(type.inner, pl.DataType)
        size = type.size if isinstance(type, pl.Array) else None
        found = st.lists(values(type.inner), min_size=size or 0, max_size=size or 3)
    elif isinstance(type, pl.Map):
        assert isinstance(type.value, pl.DataType)
        found = st.dictionaries(VALUES[pl.String()], values(type.value), max_size=3)
    elif isinstance(type, pl.Struct) and type.fields:
        inner = {field.name: field.dtype for field in type.fields}
        found = st.fixed_dictionaries({n: values(t) for n, t in inner.items()})  # type: ignore[arg-type]
    else:
        found = VALUES[type]
    return st.none() | found


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_every_type_comes_back_from_parquet(data: st.DataObject) -> None:
    type = data.draw(TYPES)
    rows = data.draw(st.lists(values(type), max_size=5))
    frame = pl.DataFrame([pl.Series("c", rows, dtype=type), pl.Series("n", range(len(rows)))])
    back = decode_parquet(bytes(encode_parquet(frame)))
    assert back.schema == frame.schema
    assert back.equals(frame)
    if not frame.is_empty() and type.is_float():
        # To `equals` the two zeros are the same.
        signs = [str(value) for value in frame["c"]]
        assert [str(value) for value in back["c"]] == signs


def same(one: Sequence[FrozenState], other: Sequence[FrozenState]) -> None:
    """Both have the same, down to the order of rows."""
    for mine, theirs in zip(one, other, strict=True):
        assert (mine.groups, mine.clock_us, mine.counters) == (
            *(theirs.groups, theirs.clock_us, theirs.counters),
        )
        assert mine.names == theirs.names
        for name in mine.names:
            assert mine.describe_state(name) == theirs.describe_state(name)
            for groups in (ALL, range(2), range(1, 6)):
                runs = [each.read_runs(name, groups) for each in (mine, theirs)]
                for frames in runs:
                    assert all(frame[SLOT].is_sorted() for frame in frames)
                _same_rows(*(pl.concat(frames) if frames else None for frames in runs))
                _same_rows(mine.read_table(name, groups), theirs.read_table(name, groups))
            _same_rows(mine.read_entries(name), theirs.read_entries(name))


def _same_rows(one: pl.DataFrame | None, other: pl.DataFrame | None) -> None:
    if one is None or other is None:
        assert one is other
    else:
        assert_frame_equal(one, other[one.columns])


@pytest.fixture(params=["memory", "rocksdb", "spilled"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """One with a checkpoint of either backend; keys that are taken leave gaps in their frames."""
    monkeypatch.setattr("headrace.state.memory.sorted_runs.MIN_LOOKUP_ROWS", 4)
    monkeypatch.setattr("headrace.state.memory.sorted_runs.LOOKUP_RATIO", 2)
    memory = 1 if request.param == "spilled" else 1 << 28
    live = RocksBackend(str(tmp_path / "live"), memory)
    backend = MemoryBackend() if request.param == "memory" else live
    made = taken(LocalDisk(), backend, str(tmp_path / "home"))
    with open_checkpoint(made) as kept:
        documents: Any = kept.document["states"]
        formats = {document["format"] for (document,) in documents["step"]}
        if request.param == "memory":
            pieces = documents["step"][0][0]["states"]["windows"]["frames"]
            assert any(piece["skip"] and piece["gone"] for piece in pieces)
    assert formats == {"rocksdb" if request.param == "spilled" else "frames"}
    return made


@pytest.mark.parametrize("file_bytes", [1 << 25, 200])
def test_all_stored_state_is_restored(
    home: Home, file_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "TARGET_FILE_BYTES", file_bytes)
    folder = take_savepoint(home, "1.0", time=lambda: NOW)
    assert folder == f"{home.root}/@savepoints/{NAME}/2026-01-31T08-00-00Z"
    with open_checkpoint(home) as kept:
        savepoint = open_savepoint(folder)
        same(savepoint.thaw_step("step"), kept.thaw_step("step"))
        said, was = dict(savepoint.document), dict(kept.document)
        assert said.pop("states") != was.pop("states")
        assert said == {"kind": "savepoint", "taken": NOW, "taken_by": "1.0", **was}
    savepoint.verify()
    assert (
        savepoint.thaw_step("step")[0].describe_state("where").redistribution is Redistribution.LIST
    )


def test_what_was_put_is_what_comes_back(home: Home) -> None:
    """Compares with the rows put, not with the checkpoint, which may have the same error."""
    frozen = open_savepoint(take_savepoint(home, "1.0")).thaw_step("step")
    tables = [each.read_table("keys", ALL) for each in frozen]
    rows = pl.concat([table for table in tables if table is not None])
    assert rows.height == ROWS - 6
    assert rows.join(keyed(), on=[KEY, "s", EXPIRY], nulls_equal=True).height == rows.height
    runs = pl.concat([frame for each in frozen for frame in each.read_runs("windows", ALL)])
    wanted = pl.concat([filed(1), filed(5)]).filter(pl.col(SLOT) > 1, ~pl.col("k").is_in([7, 60]))
    assert_frame_equal(runs, wanted, check_row_order=False, check_column_order=False)


def sql(query: str) -> list[tuple[object, ...]]:
    """Return DuckDB's answer."""
    return duckdb.connect().execute(query).fetchall()


def test_a_database_reads_the_files(home: Home) -> None:
    folder = take_savepoint(home, "1.0")
    files = f"{folder}/states/step/keys/*.parquet"
    asked = f"select count(*), min(__group), max(__group), max(__until) from '{files}'"
    assert sql(asked) == [(ROWS - 6, 0, 7, ROWS - 2)]
    windows = f"'{folder}/states/step/windows/*.parquet'"
    mine = sql(f"select count(*) from {windows} where __group < 4")
    frames = open_savepoint(folder).thaw_step("step")[0].read_runs("windows", ALL)
    assert mine == [(sum(frame.height for frame in frames),)]


def test_a_savepoint_says_what_its_columns_are(home: Home) -> None:
    part = open_savepoint(take_savepoint(home, "1.0")).step_documents["step"][0][0]
    columns = [(c.name, c.type, c.polars) for c in part.states["keys"].columns]
    assert columns == [
        ("__group", "int", "Int32"),
        (KEY, "string", "String"),
        ("s", "string", "String"),
        (EXPIRY, "bigint", "Int64"),
    ]


@pytest.mark.parametrize(
    ("type", "wanted"),
    [
        (pl.Decimal(10, 2), "decimal(10,2)"),
        (pl.Datetime("us", "UTC"), "timestamp"),
        (pl.Datetime("us"), "timestamp_ntz"),
        (pl.List(pl.UInt8()), None),
        (pl.Struct({"a": pl.Int8(), "b c": pl.Binary()}), "struct<a:tinyint,`b c`:binary>"),
        (pl.Map(pl.Date(), pl.List(pl.Int8())), "map<date,array<tinyint>>"),
        (pl.Map(pl.String(), pl.UInt8()), None),
        (pl.Null(), None),
        (pl.Int128(), None),
    ],
)
def test_types_have_the_names_that_pipelines_give_them(
    type: pl.DataType, wanted: str | None
) -> None:
    assert get_sql_type(type) == wanted


def test_a_savepoint_may_be_moved(home: Home, tmp_path: Path) -> None:
    folder = take_savepoint(home, "1.0")
    before = open_savepoint(folder).thaw_step("step")
    shutil.copytree(folder, tmp_path / "elsewhere")
    same(open_savepoint(str(tmp_path / "elsewhere")).thaw_step("step"), before)
    assert str(home.root) not in (tmp_path / "elsewhere/savepoint.json").read_text()


@pytest.fixture
def one(tmp_path: Path) -> Home:
    """A home of the memory backend."""
    return taken(LocalDisk(), MemoryBackend(), str(tmp_path / "home"))


def files(folder: str) -> list[Path]:
    """All files of a savepoint."""
    return sorted(path for path in Path(folder).rglob("*") if path.is_file())


def test_a_file_that_is_damaged_is_named(one: Home) -> None:
    folder = take_savepoint(one, "1.0")
    for file in files(folder):
        whole = file.read_bytes()
        broken = (whole[:-1], whole + b"x", whole[:9] + bytes([whole[9] ^ 1]) + whole[10:], None)
        for data in broken:
            file.unlink() if data is None else file.write_bytes(data)
            if data is None and file.name == "savepoint.json":
                continue
            with pytest.raises(DamagedSnapshot, match=str(file)) as raised:
                open_savepoint(folder).verify()
            assert raised.value.file == str(file)
            assert raised.value.exit_status == 3
        file.write_bytes(whole)
    open_savepoint(folder).verify()


def test_a_folder_that_is_none_is_refused(one: Home, tmp_path: Path) -> None:
    with pytest.raises(NoSuchSnapshot, match="there is no savepoint") as raised:
        open_savepoint(str(tmp_path / "nothing"))
    assert raised.value.exit_status == 2
    with pytest.raises(RefusedSnapshot, match=r"has no savepoint\.json"):
        open_savepoint(str(tmp_path))
    path = tmp_path / "savepoint.json"
    path.write_bytes(encode_checksummed({"kind": "savepoint"}, 2))
    with pytest.raises(RefusedSnapshot, match="wanted format 1, got 2"):
        open_savepoint(str(tmp_path))
    path.write_bytes(encode_checksummed({"job": "x"}))
    with pytest.raises(RefusedSnapshot, match="wanted a savepoint, got None"):
        open_savepoint(str(tmp_path))


def test_a_name_that_leads_elsewhere_is_refused(one: Home) -> None:
    path = Path(take_savepoint(one, "1.0")) / "savepoint.json"
    document = json.loads(path.read_bytes())
    for name in ("checksum", "format"):
        del document[name]
    document["states"]["step"][0][0]["states"]["keys"]["files"][0]["file"] = "../../x.parquet"
    path.write_bytes(encode_checksummed(document))
    with pytest.raises(RefusedSnapshot, match=r"names \.\./\.\./x\.parquet"):
        open_savepoint(str(path.parent))


def test_savepoints_are_never_overwritten(one: Home, tmp_path: Path) -> None:
    folders = [take_savepoint(one, "1.0", time=lambda: NOW) for _ in range(3)]
    assert [Path(folder).name for folder in folders] == [
        "2026-01-31T08-00-00Z",
        "2026-01-31T08-00-00Z-2",
        "2026-01-31T08-00-00Z-3",
    ]
    with pytest.raises(RefusedSnapshot, match="is a savepoint"):
        take_savepoint(one, "1.0", to=folders[0])
    (tmp_path / "mine").mkdir()
    take_savepoint(one, "1.0", to=str(tmp_path / "mine"))
    open_savepoint(str(tmp_path / "mine")).verify()


def test_output_that_may_not_be_visible_is_no_part_of_a_savepoint(one: Home) -> None:
    store = one.open_store("1f3c09a2" * 4)
    said = store.read_manifest(7)
    waiting = {
        **said,
        "sinks": {"out": {"handles": [{"subtask": 0, "handle": {}}], "writers": []}},
    }
    store.commit(8, waiting)
    with pytest.raises(RefusedSnapshot, match="checkpoint 8 has output of out that may not be"):
        take_savepoint(one, "1.0")
    one.write_commit_record(7)
    with pytest.raises(RefusedSnapshot, match="checkpoint 8"):
        take_savepoint(one, "1.0")
    one.write_commit_record(8)
    sinks: Any = open_savepoint(take_savepoint(one, "1.0")).document["sinks"]
    assert sinks["out"]["handles"] == []


def test_a_checkpoint_before_the_committed_one_can_be_saved(one: Home) -> None:
    store = one.open_store("1f3c09a2" * 4)
    handles = {"out": {"handles": [{"subtask": 0, "handle": {}}], "writers": []}}
    for number in (8, 9):
        store.commit(number, {**store.read_manifest(7), "sinks": handles})
    one.write_commit_record(9)
    take_savepoint(one, "1.0", 8)
    store.discard(9)
    with pytest.raises(RefusedSnapshot, match="checkpoint 8"):
        take_savepoint(one, "1.0", 8)


def test_a_checkpoint_that_goes_meanwhile_is_no_damage(one: Home) -> None:
    store = one.open_read_only()
    assert store is not None

    def gone(done: int, of: int) -> None:
        store.discard(7)
        store.collect([])

    with pytest.raises(RefusedSnapshot, match="checkpoint 7 was removed while it was read"):
        take_savepoint(one, "1.0", report=gone)


def test_progress_is_reported(home: Home) -> None:
    told: list[tuple[int, int]] = []
    take_savepoint(home, "1.0", report=lambda done, of: told.append((done, of)))
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] > 0


class Stop(Exception):
    """The caller does not wait any more."""


def test_a_cancelled_savepoint_leaves_nothing(one: Home) -> None:
    def stop(done: int, of: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        take_savepoint(one, "1.0", report=stop)
    assert not list(Path(one.root, "@savepoints", NAME).iterdir())


def test_what_a_user_names_is_found(one: Home, tmp_path: Path) -> None:
    folder = take_savepoint(one, "1.0")
    titles = []
    for what in (NAME, f"{NAME}@7", folder):
        with open_snapshot(what, one.root) as kept:
            titles.append(kept.title)
            assert kept.steps == ("step",)
            assert kept.document["number"] == 7
            assert len(kept.thaw_step("step")) == 2
    assert titles == ["checkpoint 7 of bids", "checkpoint 7 of bids", f"savepoint {folder}"]
    for what in (f"{NAME}@8", "nothing", str(tmp_path / "nothing"), "savepoints"):
        with pytest.raises(NoSuchSnapshot), open_snapshot(what, one.root):
            pass


def test_a_value_that_is_not_read_is_not_there(one: Home) -> None:
    """Only what is read is verified, and what is read always is."""
    folder = take_savepoint(one, "1.0")
    file = next(path for path in files(folder) if "panes" in str(path))
    file.write_bytes(file.read_bytes()[::-1])
    frozen = open_savepoint(folder).thaw_step("step")
    for each in frozen:
        each.read_table("keys", ALL)
    with pytest.raises(SnapshotError, match="panes"):
        for each in frozen:
            each.read_table("panes", ALL)
