"""Key and pane packed into one number give the groups that the two of them give."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.core.api.state import SLOT
from headrace.core.operators.windows import pane_state

KEYS = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1), st.none())
SLOTS = st.sampled_from([0, 10, 253_402_300_800_000_000, -62_135_596_790_000_000])


def count(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    return frame.group_by(by).agg(pl.col("x").sum(), pl.len().alias("n"))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(KEYS, SLOTS), min_size=1), st.booleans())
def test_packing_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, pairs: list[tuple[int | None, int]], small: bool
) -> None:
    monkeypatch.setattr(pane_state, "MIN_PACKED_ROWS", 0)
    if small:
        pairs = [(None if key is None else key % 5, slot // 10**12) for key, slot in pairs]
    keys, slots = zip(*pairs, strict=True)
    type = pl.Int8() if small else pl.Int64()
    frame = pl.DataFrame(
        {"k": pl.Series(keys, dtype=type), SLOT: pl.Series(slots, dtype=pl.Int64())}
    ).with_columns(x=pl.int_range(pl.len()))
    found = pane_state.group_packed(frame, ("k", SLOT), count)
    assert found.schema == count(frame, ("k", SLOT)).schema
    assert sorted(found.rows(), key=str) == sorted(count(frame, ("k", SLOT)).rows(), key=str)
    text = frame.with_columns(pl.col("k").cast(pl.String))
    assert pane_state.group_packed(text, ("k", SLOT), count).height == found.height
