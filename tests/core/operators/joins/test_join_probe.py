"""The matching rows of two frames, against a cross join, by every search method."""

from __future__ import annotations

import random
from itertools import product

import polars as pl
import pytest

from headrace.core.api.state import SLOT
from headrace.core.operators.joins import join_probe
from headrace.core.operators.joins.join_probe import JoinProbe, ProbeIndex

NAN = float("nan")
SCHEMA = {"k": pl.Float64, "s": pl.String, SLOT: pl.Int64}


def frame_of(chance: random.Random, rows: int) -> pl.DataFrame:
    times = [chance.randrange(20) for _ in range(rows)]
    times = sorted(times) if chance.random() < 0.5 else times
    keys = [(chance.choice([0.0, 1.5, NAN]), chance.choice("ab")) for _ in range(rows)]
    found = [(*key, at) for key, at in zip(keys, times, strict=True)]
    return pl.DataFrame(found, schema=SCHEMA, orient="row")


@pytest.mark.parametrize("seed", range(40))
def test_the_rows_that_meet_are_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    most = chance.choice([1, 2, 7, 65536])
    monkeypatch.setattr(join_probe, "MAX_OUTPUT_ROWS", most)
    for name, values in {
        "MAX_SPARSE_MATCHES": [0, 1, 2, 100],
        "FEW_ROWS": [0, 2, 2000],
        "MAX_STEPS": [1, 2, 16],
        "MAX_BISECTED_KEYS": [-1, 2, 16],
        "MAX_LISTED_ROWS": [0, 8, 256],
        "MAX_LISTED_PAIRS": [3, 1024],
    }.items():
        monkeypatch.setattr(join_probe, name, chance.choice(values))
    one, other = frame_of(chance, chance.randrange(12)), frame_of(chance, chance.randrange(12))
    least, first = chance.randrange(-5, 5), chance.randrange(2)
    on = ("k", "s")[first:]
    for near in ((least, least + chance.randrange(6)), None):
        probe = JoinProbe(one, ProbeIndex(other, on, by_time=near is not None), near)
        lots = [list(zip(asks, meets, strict=True)) for asks, meets in probe.iterate_pairs()]
        expected = [
            (asks, meets)
            for (asks, a), (meets, b) in product(enumerate(one.rows()), enumerate(other.rows()))
            if repr(a[first:2]) == repr(b[first:2])
            and (near is None or near[0] <= b[2] - a[2] <= near[1])
        ]
        assert sorted(pair for lot in lots for pair in lot) == expected
        assert [asks for lot in lots for asks, _ in lot] == [asks for asks, _ in expected]
        assert all(len(lot) <= most for lot in lots)
        met = JoinProbe(one, ProbeIndex(other, on, by_time=near is not None), near).find_matched()
        assert met.to_list() == sorted({asks for asks, _ in expected})


@pytest.mark.parametrize("few", [0, 2000])
@pytest.mark.parametrize("hash", [0, (1 << 64) - 1])
def test_keys_with_equal_hashes_are_distinguished(
    hash: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_probe, "FEW_ROWS", few)
    monkeypatch.setattr(join_probe, "MAX_BISECTED_KEYS", -1)
    monkeypatch.setattr(join_probe, "MAX_LISTED_ROWS", 0)
    monkeypatch.setattr(
        join_probe,
        "hash_rows",
        lambda rows, on: rows.select(pl.col("k") * 0 + pl.lit(hash, pl.UInt64))["k"],
    )
    one = pl.DataFrame({"k": pl.Series([1, 2, 3, 9], dtype=pl.UInt64)})
    other = pl.DataFrame({"k": pl.Series([3, 2, 2, 5], dtype=pl.UInt64)})
    probe = JoinProbe(one, ProbeIndex(other, ("k",)))
    found = [
        (a, b) for asks, meets in probe.iterate_pairs() for a, b in zip(asks, meets, strict=True)
    ]
    assert sorted(found) == [(1, 1), (1, 2), (2, 0)]
    assert JoinProbe(one, ProbeIndex(other, ("k",))).find_matched().to_list() == [1, 2]
