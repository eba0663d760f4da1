"""Batches are concatenated, and copied without shared memory, whatever their columns."""

from __future__ import annotations

import datetime
import io
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData
from headrace.core.types.frames import (
    FEW_ROWS,
    concat_contiguous,
    copy_compact,
    hash_rows,
    list_keys,
    rechunk,
    split_frame,
)
from tests.support.runtime.memory_pipelines import simulated

TIME = datetime.datetime(2026, 1, 31, 8, tzinfo=datetime.UTC)
SCHEMA: dict[str, pl.DataType] = {
    "s": pl.String(),
    "b": pl.Binary(),
    "l": pl.List(pl.Struct({"x": pl.List(pl.String)})),
    "r": pl.Struct({"x": pl.Int8, "y": pl.Null}),
    "d": pl.Decimal(38, 2),
    "t": pl.Datetime("us", "UTC"),
    "n": pl.Null(),
}
ROWS = [
    ("a" * 30, b"x", [{"x": ["y" * 40]}], {"x": 1, "y": None}, Decimal("1.10"), TIME, None),
    (None,) * 7,
    ("", b"", [], {"x": None, "y": None}, Decimal("-0.01"), TIME, None),
]
MANY = pl.DataFrame({"id": range(1000), "l": [["a" * 50, "b" * 50]] * 1000})
WHOLE = pl.DataFrame(ROWS, schema=SCHEMA, orient="row")


@given(st.lists(st.text(max_size=50), max_size=60), st.integers(1, 70), st.integers(0, 400))
def test_pieces_are_within_the_bounds_and_hold_every_row(
    texts: list[str], max_rows: int, max_bytes: int
) -> None:
    frame = pl.DataFrame({"s": texts, "l": [[text] for text in texts]})
    pieces = list(split_frame(frame, max_rows, max_bytes))
    assert pl.concat(pieces).equals(frame)
    for piece in pieces:
        assert piece.height <= max_rows
        assert piece.estimated_size() <= max_bytes or piece.height == 1 or frame.is_empty()


def test_batches_are_joined_in_their_order_and_none_of_them_is_changed() -> None:
    pieces = [WHOLE.slice(1), WHOLE.slice(0, 1), WHOLE.slice(1, 1), WHOLE]
    assert concat_contiguous(pieces).rows() == [*ROWS[1:], ROWS[0], ROWS[1], *ROWS]
    assert concat_contiguous(pieces).n_chunks("all") == [1] * WHOLE.width
    assert [piece.height for piece in pieces] == [2, 1, 1, 3]


def test_a_copy_is_equal() -> None:
    many = pl.concat([WHOLE.select("s", "b")] * 20)
    for frame in (WHOLE, WHOLE.slice(1, 1), WHOLE.clear(), WHOLE.select("t", "n"), many, many[:9]):
        assert copy_compact(frame).equals(frame)
        assert copy_compact(frame).schema == frame.schema


def test_a_copy_lets_go_of_rows_that_did_not_pass() -> None:
    few = MANY.filter(pl.col("id") < 2)
    assert _held(few) > 50_000
    assert _held(copy_compact(few)) < 2_000


def test_many_and_few_rows_of_several_chunks_become_contiguous() -> None:
    for few in (MANY.head(10), MANY):
        parts = [few, few, few]
        whole = rechunk(pl.concat(parts * 10, rechunk=False))
        assert whole.n_chunks("all") == [1] * whole.width
        assert whole.equals(pl.concat(parts * 10))
    assert rechunk(MANY.select()).height == MANY.select().height


def test_rows_go_through_a_channel_without_those_that_did_not_pass(tmp_path: Path) -> None:
    memory = InMemoryData({"in": {"a": [MANY]}})
    text = """
    sources: {s: {memory: {data: in}, schema: {id: bigint, l: array<string>}}}
    steps: {few: {from: s, where: id < 2}}
    sinks: {out: {from: few, memory: {data: out}, parallelism: 2}}
    """
    assert simulated(tmp_path, text, memory, 1).failure is None
    (few,) = memory.outputs["out"]
    assert few.equals(MANY.head(2))
    assert _held(few) < 2_000


def _held(frame: pl.DataFrame) -> int:
    """Return the bytes that the columns refer to: Arrow writes views of lists with all of it."""
    out = io.BytesIO()
    frame.write_ipc_stream(out, compat_level=pl.CompatLevel.newest())
    return len(out.getvalue())


@pytest.mark.parametrize("names", [["s"], ["t", "b"], ["s", "b", "t", "d"]])
def test_few_rows_have_the_hashes_that_they_have_among_many(names: list[str]) -> None:
    many = pl.concat([WHOLE] * (FEW_ROWS // 3 + 1))
    hashes = hash_rows(many, names)
    assert hash_rows(WHOLE, names).to_list() == hashes.to_list()[:3]
    assert hashes.n_unique() == WHOLE[names].n_unique()


def test_equal_columns_of_a_key_do_not_cancel_out() -> None:
    twice = pl.DataFrame({"x": [0, 0], "y": [1, 2], "z": [1, 2]})
    assert hash_rows(twice, ["x", "y", "z"]).n_unique() == 2


def test_keys_are_listed_if_python_compares_them_as_frames_do() -> None:
    at = int(TIME.timestamp() * 1_000_000)
    assert list_keys(WHOLE, ["b", "t"]) == [(b"x", at), (None, None), (b"", at)]
    assert list_keys(WHOLE, ["s"]) == ["a" * 30, None, ""]
    assert list_keys(WHOLE, ["s", "d"]) is None
    assert list_keys(pl.DataFrame({"f": [float("nan")]}), ["f"]) is None


def test_frames_of_a_union_keep_the_columns_that_all_have() -> None:
    left = pl.DataFrame({"id": [1, 2], "at": [3, 4]})
    assert concat_contiguous([left, pl.DataFrame({"at": [5]})]).to_dict(as_series=False) == {
        "at": [3, 4, 5]
    }
    assert concat_contiguous([left, pl.DataFrame({"other": [6]})]).height == 3
