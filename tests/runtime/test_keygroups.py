"""Keys go to the same group for ever: these are golden values, savepoints depend on them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl

from headrace.core.keygroups import key_group, owned, partition


def groups(**columns: object) -> list[int]:
    return key_group(pl.DataFrame(columns), list(columns), 128).to_list()


def test_every_group_is_owned_once() -> None:
    for count in (1, 7, 128):
        for parallelism in range(1, count + 1):
            ranges = [owned(i, parallelism, count) for i in range(parallelism)]
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
    whole = key_group(pairs, ["a", "b"], 1 << 30).to_list()
    assert len(set(whole)) == len(whole)


def test_rows_go_to_the_owner_of_their_key() -> None:
    frame = pl.DataFrame({"k": list(range(1000))})
    parts = dict(partition(frame, frame.select("k"), 128, 3))
    assert sum(part.height for part in parts.values()) == 1000
    for subtask, part in parts.items():
        assert set(key_group(part, ["k"], 128).to_list()) <= set(owned(subtask, 3, 128))


UTC = UTC


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
    found = {name: key_group(frame, [name], 1 << 30).to_list() for name in frame.columns}
    found["all"] = key_group(frame, frame.columns, 1 << 30).to_list()
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
