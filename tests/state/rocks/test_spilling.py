"""Spilling to disk: literal cases."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from headrace.core.api.snapshots import DamagedSnapshot, RefusedSnapshot, StoreError
from headrace.core.api.state import EXPIRY, KEY, SLOT, Document, RunsLayout
from headrace.core.api.state_backend import StateOwnership
from headrace.core.types.key_groups import compute_owned_groups, encode_keys
from headrace.state.memory.backend import MemoryBackend
from headrace.state.rocks.backend import RocksBackend
from headrace.state.rocks.memory_budget import FRAME_SHARE, MemoryBudget
from headrace.state.rocks.row_codec import decode_rows, encode_rows
from headrace.state.rocks.state import RocksState
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.local_store import LocalSnapshotStore
from tests.state.memory.test_backend import resident_mb

ALL = StateOwnership("step", 0, range(8), 8)
COLUMNS = {"s": pl.String()}
LAYOUT = RunsLayout({"k": pl.Int64(), "n": pl.Int64()}, ("k",), lambda frame: merged(frame))
ROOM, NONE = 1 << 30, 1
ROWS = 20_000


def merged(frame: pl.DataFrame) -> pl.DataFrame:
    """One row a key and slot."""
    return frame.group_by("k", SLOT).agg(pl.col("n").sum()).select(frame.columns)


def rows(start: int, count: int = ROWS, until: int | None = None) -> pl.DataFrame:
    """Rows of a table, whose texts say which they are."""
    numbers = pl.int_range(start, start + count, eager=True)
    texts = "row " + numbers.cast(pl.String) + "x" * 20
    frame = pl.DataFrame({KEY: encode_keys(numbers.to_frame("k")), "s": texts})
    return frame.with_columns(pl.lit(until, dtype=pl.Int64).alias(EXPIRY)) if until else frame


def filed(slot: int, keys: int = ROWS) -> pl.DataFrame:
    """Rows of runs."""
    key = pl.int_range(keys, eager=True).alias("k")
    one, at = pl.lit(1, dtype=pl.Int64).alias("n"), pl.lit(slot, dtype=pl.Int64).alias(SLOT)
    return key.to_frame().with_columns(one, at)


@pytest.fixture
def kept(tmp_path: Path) -> LocalSnapshotStore:
    """A store on this disk."""
    made = LocalSnapshotStore(LocalDisk(), str(tmp_path / "checkpoints"), "0" * 32)
    made.prepare()
    return made


def checkpointed(state: RocksState, kept: LocalSnapshotStore) -> Document:
    """The next checkpoint's document."""
    document = state.freeze().persist(kept)
    number = max(kept.list_checkpoints(), default=0) + 1
    kept.commit(number, {"state": document})
    return document


def spilled(folder: Path, kept: LocalSnapshotStore) -> tuple[RocksState, Document]:
    """A state nearly all of which is on disk, and its stored document."""
    state = RocksBackend(str(folder), NONE).open_state(ALL)
    table, runs = state.open_table("rows", COLUMNS), state.open_runs("filed", LAYOUT)
    for start in range(0, ROWS, ROWS // 4):
        table.put(rows(start, ROWS // 4))
    runs.add(filed(0))
    runs.add(filed(1))
    return state, checkpointed(state, kept)


def test_what_spilled_is_found_and_taken(tmp_path: Path) -> None:
    state = RocksBackend(str(tmp_path), NONE).open_state(ALL)
    table, runs = state.open_table("rows", COLUMNS), state.open_runs("filed", LAYOUT)
    for start in range(0, ROWS, ROWS // 4):
        table.put(rows(start, ROWS // 4))
    table.put(rows(0, 100).with_columns(s=pl.lit("new")))
    runs.add(filed(0))
    runs.add(filed(0))
    assert list(tmp_path.rglob("*.run"))
    assert list(tmp_path.rglob("CURRENT"))
    found = table.find(rows(50, 100)[KEY])
    assert found["s"].to_list() == ["new"] * 50 + rows(100, 50)["s"].to_list()
    taken = runs.take(0)
    assert taken is not None
    assert (taken.height, taken["n"].unique().to_list()) == (ROWS, [2])
    assert not list(tmp_path.rglob("*.run"))
    state.close()
    assert not list(tmp_path.rglob("*"))


def test_the_same_key_groups_take_over_what_was_stored(
    tmp_path: Path, kept: LocalSnapshotStore
) -> None:
    state, document = spilled(tmp_path / "1", kept)
    state.close()
    backend = RocksBackend(str(tmp_path / "2"), NONE)
    again = backend.open_state(
        StateOwnership("step", 0, range(8), 8, (backend.thaw(document, kept),))
    )
    before = kept.bytes_written
    checkpointed(again, kept)
    assert kept.bytes_written - before < 20_000  # RocksDB's own small files
    assert again.get_restored_columns("rows") == COLUMNS
    assert again.get_restored_columns("filed") == LAYOUT.columns
    found = again.open_table("rows", COLUMNS).find(rows(0)[KEY])
    assert found["s"].equals(rows(0)["s"])
    taken = again.open_runs("filed", LAYOUT).take(1)
    assert taken is not None
    assert taken.height == 2 * ROWS
    again.close()


def test_a_state_that_was_not_used_since_its_restore_is_stored_whole(
    tmp_path: Path, kept: LocalSnapshotStore
) -> None:
    state, document = spilled(tmp_path / "0", kept)
    state.close()
    for attempt in (1, 2):
        backend = RocksBackend(str(tmp_path / f"{attempt}"), NONE)
        again = backend.open_state(
            StateOwnership("step", 0, range(8), 8, (backend.thaw(document, kept),))
        )
        table = again.open_table("rows", COLUMNS)
        again.open_runs("filed", LAYOUT)
        document = checkpointed(again, kept)
        if attempt == 2:
            assert table.find(rows(0)[KEY])["s"].equals(rows(0)["s"])
        again.close()


def test_other_key_groups_read_what_was_stored(tmp_path: Path, kept: LocalSnapshotStore) -> None:
    state, document = spilled(tmp_path / "1", kept)
    state.close()
    for memory in (ROOM, NONE):
        texts: list[str] = []
        slots = 0
        for subtask in range(3):
            backend = RocksBackend(str(tmp_path / f"{memory}-{subtask}"), memory)
            groups, thawed = compute_owned_groups(subtask, 3, 8), backend.thaw(document, kept)
            part = backend.open_state(StateOwnership("step", subtask, groups, 8, (thawed,)))
            texts += part.open_table("rows", COLUMNS).find(rows(0)[KEY])["s"].to_list()
            taken = part.open_runs("filed", LAYOUT).take(1)
            slots += 0 if taken is None else taken.height
            part.close()
        assert sorted(texts) == sorted(rows(0)["s"])
        assert slots == 2 * ROWS


def test_state_that_fits_is_stored_as_by_the_memory_backend(
    tmp_path: Path, kept: LocalSnapshotStore
) -> None:
    state = RocksBackend(str(tmp_path / "state"), ROOM).open_state(ALL)
    state.open_table("rows", COLUMNS).put(rows(0))
    thawed = MemoryBackend().thaw(checkpointed(state, kept), kept)
    found = thawed.read_table("rows", range(8))
    assert found is not None
    assert found.equals(rows(0))
    assert not (tmp_path / "state").exists()


def test_what_spilled_is_refused_by_the_memory_backend(
    tmp_path: Path, kept: LocalSnapshotStore
) -> None:
    state, document = spilled(tmp_path / "state", kept)
    state.close()
    with pytest.raises(RefusedSnapshot, match="wanted state that is all in memory"):
        MemoryBackend().thaw(document, kept)


@pytest.mark.parametrize("kind", ["sst", "run"])
def test_a_damaged_file_is_named(tmp_path: Path, kept: LocalSnapshotStore, kind: str) -> None:
    state, document = spilled(tmp_path / "1", kept)
    state.close()
    blob = blob_of(document, kind)
    path = tmp_path / "checkpoints" / "blobs" / blob
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    path.write_bytes(data)
    backend = RocksBackend(str(tmp_path / "2"), NONE)
    with pytest.raises(DamagedSnapshot, match=blob) as raised:
        backend.open_state(StateOwnership("step", 0, range(8), 8, (backend.thaw(document, kept),)))
    assert raised.value.checkpoints == (1,)


def test_rows_whose_time_has_passed_leave_the_disk(tmp_path: Path) -> None:
    state = RocksBackend(str(tmp_path), NONE).open_state(ALL)
    table = state.open_table("rows", COLUMNS)
    for start in range(0, ROWS, ROWS // 4):
        table.put(rows(start, ROWS // 4, until=5))
    assert table.rows > ROWS // 2
    for now in range(6, 12):
        table.expire(now)
    assert table.rows < ROWS // 10
    state.close()


def test_a_key_that_has_passed_shows_no_earlier_row(tmp_path: Path) -> None:
    state = RocksBackend(str(tmp_path), NONE).open_state(ALL)
    table = state.open_table("rows", COLUMNS)
    for start in range(0, ROWS, ROWS // 4):
        table.put(rows(start, ROWS // 4))
    table.put(rows(0, 5000, until=5))
    for now in (6, 7):
        table.expire(now)
        assert not table.find(rows(0, 5000)[KEY]).height
    assert table.find(rows(5000, 5000)[KEY]).height == 5000
    state.close()


def test_a_checkpoint_that_cannot_be_made_leaves_the_state_as_it_is(
    tmp_path: Path, kept: LocalSnapshotStore
) -> None:
    state, _ = spilled(tmp_path / "state", kept)
    frozen = state.freeze()
    for folder in (tmp_path / "state").glob("*"):
        (folder / "cut-2").mkdir()
    with pytest.raises(StoreError, match="cannot copy the database"):
        frozen.persist(kept)
    checkpointed(state, kept)
    state.close()


def test_the_largest_state_spills_first() -> None:
    budget = MemoryBudget(int(1000 / FRAME_SHARE) + 1)
    assert not budget.report_usage("a", 400)
    assert not budget.report_usage("b", 590)
    assert not budget.report_usage("a", 450)
    assert budget.report_usage("b", 600)
    assert not budget.report_usage("b", 0)
    budget.release("b")
    assert not budget.report_usage("a", 1000)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="wants Linux's account")
def test_the_memory_budget_is_respected(tmp_path: Path) -> None:
    state = RocksBackend(str(tmp_path), 16 << 20).open_state(ALL)
    table, runs = state.open_table("rows", COLUMNS), state.open_runs("filed", LAYOUT)
    before = resident_mb()
    for at in range(40):
        large = rows(at * ROWS).with_columns(pl.concat_str("s", pl.lit("y" * 200)).alias("s"))
        table.put(large)
        runs.add(filed(at))
    # The rows are 250 MB. What RocksDB has to write is in memory as well, more on a busy machine.
    assert resident_mb() - before < 180
    assert table.rows >= 40 * ROWS
    state.close()


def test_nothing_of_rocksdb_is_loaded_before_rows_spill() -> None:
    program = """
import sys
import polars as pl
from headrace.core.api.state_backend import StateOwnership
from headrace.core.api.state import KEY
from headrace.state.rocks.backend import RocksBackend
state = RocksBackend("nowhere", 1 << 30).open_state(StateOwnership("step", 0, range(8), 8))
table = state.open_table("rows", {})
table.put(pl.DataFrame({KEY: ["a"]}))
assert "rocksdict" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def blob_of(document: Document, kind: str) -> str:
    """The blob of a file of the database, or of runs."""
    database, states = document["database"], document["states"]
    assert isinstance(database, dict)
    assert isinstance(states, dict)
    if kind == "run":
        return str(states["filed"]["spilled"][0]["file"]["blob"])
    return next(str(blob["blob"]) for name, blob in database.items() if name.endswith(".sst"))


def test_every_type_comes_back_from_a_line() -> None:
    frame = pl.DataFrame(
        {
            "text": ['\n"\\\0ü', ""],
            "decimal": [Decimal("1.10"), None],
            "limbs": [[Decimal(1), None], None],
            "struct": [{"a": 1, "b": ["x", None]}, None],
            "structs": [[{"x": Decimal("1.5"), "at": datetime(2026, 1, 31, tzinfo=UTC)}, None], []],
            "nothing": [None, None],
            "binary": [b"\xff", None],
            "binaries": [[b"\xff\0", None], []],
            "date": [date(2020, 1, 1), None],
            "time": [datetime(2026, 1, 31, tzinfo=UTC), None],
            "days": [timedelta(1), None],
            "float": [float("nan"), -0.0],
            "tiny": [5e-324, 1 / 3],
            "single": pl.Series([0.1, 3e38], dtype=pl.Float32),
            "yes": [True, None],
            "lists": [[[]], [None]],
            "enum": pl.Series(["a", None], dtype=pl.Enum(["a", "b"])),
            "count": pl.Series([2**64 - 1, None], dtype=pl.UInt64),
            "great": pl.Series([2**100, None], dtype=pl.Int128),
            "map": pl.Series(
                [{date(2020, 1, 1): [b"\xff", None]}, {}],
                dtype=pl.Map(pl.Date(), pl.List(pl.Binary())),
            ),
            "maps": pl.Series(
                [[{"a": {"b": 0.5}, "c": None}, None], None],
                dtype=pl.List(pl.Map(pl.String(), pl.Struct({"b": pl.Float64()}))),
            ),
            "array": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int8, 2)),
        },
        schema_overrides={"decimal": pl.Decimal(38, 6), "limbs": pl.List(pl.Decimal(38, 0))},
    )
    back = decode_rows(encode_rows(frame), frame.schema)
    assert back.schema == frame.schema
    assert back.equals(frame)
    later = decode_rows(
        encode_rows(frame.select("text")), {"text": pl.String(), "more": pl.Int64()}
    )
    assert later["more"].to_list() == [None, None]
