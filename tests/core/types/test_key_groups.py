"""The key group of a key never changes: golden values, which savepoints depend on."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
import pytest

from headrace.core.types.key_groups import (
    compute_key_groups,
    compute_owned_groups,
    compute_row_groups,
    encode_keys,
    partition_by_owner,
)


def groups(**columns: object) -> list[int]:
    return compute_row_groups(pl.DataFrame(columns), list(columns), 128).to_list()


def test_every_group_is_owned_once() -> None:
    for count in (1, 7, 128):
        for parallelism in range(1, count + 1):
            ranges = [compute_owned_groups(i, parallelism, count) for i in range(parallelism)]
            assert [group for owns in ranges for group in owns] == list(range(count))
            for index, owns in enumerate(ranges):
                assert all(group * parallelism // count == index for group in owns)


def test_equal_keys_are_in_one_group_whatever_their_bits() -> None:
    assert len(set(groups(k=[0.0, -0.0]))) == 1
    nan = pl.Series([float("nan"), -float("nan")])
    assert len(set(groups(k=nan))) == 1
    assert groups(k=[1, 2, 3]) == groups(k=pl.Series([1, 2, 3], dtype=pl.Int16))


def test_no_two_keys_are_written_alike() -> None:
    pairs = pl.DataFrame(
        {"a": ["1:a", "", None, "-", "a"], "b": ["", "1:a", "-", None, "b"]},
    )
    whole = compute_row_groups(pairs, ["a", "b"], 1 << 30).to_list()
    assert len(set(whole)) == len(whole)


def test_rows_go_to_the_owner_of_their_key() -> None:
    frame = pl.DataFrame({"k": list(range(1000))})
    parts = dict(partition_by_owner(frame, frame.select("k"), 128, 3))
    assert sum(part.height for part in parts.values()) == 1000
    for subtask, part in parts.items():
        assert set(compute_row_groups(part, ["k"], 128).to_list()) <= set(
            compute_owned_groups(subtask, 3, 128)
        )


@pytest.mark.parametrize("count", [0, 1, 2, 300, 1999, 2000, 10_000])
@pytest.mark.parametrize("parallelism", [1, 2, 7, 128])
def test_the_parts_are_all_rows_in_their_order(count: int, parallelism: int) -> None:
    keys = [None if at % 11 == 0 else at % 40 for at in range(count)]
    frame = pl.DataFrame({"at": range(count), "k": keys}, schema={"at": pl.Int64, "k": pl.Int64})
    parts = [*partition_by_owner(frame, frame.select(key="k"), 128, parallelism)]
    assert len(parts) == len({subtask for subtask, _ in parts})
    assert all(part["at"].is_sorted() and part.columns == ["at", "k"] for _, part in parts)
    if parallelism > 1:
        assert all(part.height for _, part in parts)
    assert pl.concat([part for _, part in parts] or [frame]).sort("at").equals(frame)
    for subtask, part in parts:
        assert set(compute_row_groups(part, ["k"], 128).to_list()) <= set(
            compute_owned_groups(subtask, parallelism, 128)
        )


def test_a_few_rows_go_where_they_go_among_many() -> None:
    columns = {
        "number": [None if at == 3 else at * 7919 for at in range(64)],
        "text": [None if at == 5 else "größe" * at * 20 for at in range(64)],
        "real": [(-0.0, 0.0, float("nan"), 1e300)[at % 4] * (at // 4) for at in range(64)],
        "flag": [at % 3 == 0 for at in range(64)],
        "day": [date(2026, 1, 1 + at % 28) for at in range(64)],
        "at": [datetime(2026, 1, 1, at % 24, tzinfo=UTC) for at in range(64)],
        "money": [Decimal(at) / 4 for at in range(64)],
        "bytes": [bytes([at]) for at in range(64)],
    }
    frame = pl.DataFrame(columns).with_row_index("row")
    for names in (*([name] for name in columns), ["number", "text"], list(columns)):
        many = {
            row: subtask
            for subtask, part in partition_by_owner(frame, frame[names], 128, 5)
            for row in part["row"]
        }
        for size in (1, 7):
            for piece in frame.iter_slices(size):
                for subtask, part in partition_by_owner(piece, piece[names], 128, 5):
                    assert {many[row] for row in part["row"]} == {subtask}


def test_rows_that_all_go_one_way_are_handed_on_as_they_are() -> None:
    frame = pl.DataFrame({"k": [5] * 100})
    ((_, part),) = partition_by_owner(frame, frame, 128, 3)
    assert part is frame


@pytest.mark.parametrize("length", [0, 254, 255, 256, 3000])
@pytest.mark.parametrize("values", [[], ["k"], ["", None, "k", "größe"]])
def test_a_key_is_found_where_rows_of_it_went_however_long_it_is(
    length: int, values: list[str | None]
) -> None:
    texts = [None if value is None else value + "x" * length for value in values]
    frame = pl.DataFrame({"a": texts, "b": [0.0 * at for at in range(len(texts))]})
    frame = frame.cast({"a": pl.String, "b": pl.Float64})
    for keys in (frame.select("a"), frame):
        groups = compute_key_groups(encode_keys(keys), 128)
        parts = dict(partition_by_owner(frame, keys, 128, 128))
        went = {(key, group) for group, part in parts.items() for key in part.rows()}
        assert went == set(zip(frame.rows(), groups, strict=True))


def test_golden_values() -> None:
    frame = pl.DataFrame(
        {
            "int": [1, -7, None],
            "text": ["", "größe", None],
            "double": [0.1, -1e300, None],
            "flag": [True, False, None],
            "day": [date(2024, 2, 29), date(1, 1, 1), None],
            "time": [
                datetime(2024, 2, 29, 1, 2, 3, 4, UTC),
                datetime(1969, 1, 1, tzinfo=UTC),
                None,
            ],
            "money": [Decimal("1.10"), Decimal("-0.05"), None],
            "bytes": [b"\x00\xff", b"", None],
        }
    )
    found = {name: compute_row_groups(frame, [name], 1 << 30).to_list() for name in frame.columns}
    found["all"] = compute_row_groups(frame, frame.columns, 1 << 30).to_list()
    assert found == {
        "int": [686948901, 125610634, 27398006],
        "text": [617818104, 535164192, 27398006],
        "double": [985207872, 1045105696, 27398006],
        "flag": [686948901, 265155191, 27398006],
        "day": [482998075, 839804754, 27398006],
        "time": [702477405, 252326956, 27398006],
        "money": [276289491, 79498235, 27398006],
        "bytes": [248302331, 617818104, 27398006],
        "all": [978107744, 139321219, 115311867],
    }
