"""approx_count_distinct keeps its promise for numbers of values of every size."""

from __future__ import annotations

import random

import polars as pl
import pytest

from headrace.core.aggregates import ORDER, compute_partial_states, deduplicate_calls, merge_states
from headrace.core.types.data_types import BIGINT, Field, Schema
from tests.support.aggregation import at_once, in_pieces, typed

SCHEMA = Schema((Field("n", BIGINT), Field("s", BIGINT)))
SIZES = (0, 1, 2, 5, 20, 100, 400, 700, 1500, 4000, 20_000, 100_000)


def rows_of(size: int, seed: int = 0) -> pl.DataFrame:
    """Return that many different values, some of them twice, and nulls."""
    values = pl.int_range(seed, seed + size, eager=True)
    twice = pl.concat([values, values.head(size // 3), pl.Series([None], dtype=pl.Int64)])
    return pl.DataFrame({"n": twice, "s": twice}).with_row_index(ORDER)


@pytest.mark.parametrize("deviation", [0.39, 0.2, 0.05, 0.01, 0.005])
def test_an_estimate_is_off_by_a_few_deviations_at_most(deviation: float) -> None:
    text = f"approx_count_distinct(n, {deviation}D)"
    errors = []
    for size in SIZES:
        found = at_once(rows_of(size), {"r": typed(text, SCHEMA)})["r"][0]
        assert abs(found - size) <= 3.5 * deviation * size, (size, found)
        errors.append(abs(found - size) / max(size, 1))
    assert sum(errors) / len(errors) < deviation


def test_the_estimate_does_not_depend_on_batches() -> None:
    expressions = {
        text: typed(text, SCHEMA)
        for text in (
            "approx_count_distinct(n)",
            "approx_count_distinct(n, 0.2) filter (where s > 9)",
        )
    }
    rows = rows_of(3000)
    whole = at_once(rows, expressions).row(0)
    for seed in range(5):
        assert in_pieces(rows, expressions, random.Random(seed)).row(0) == whole


def test_the_state_has_one_number_for_each_register_at_most() -> None:
    calls = deduplicate_calls([typed("approx_count_distinct(n)", SCHEMA)])
    states = [compute_partial_states(rows_of(5000, seed), [], calls) for seed in (0, 10**6)]
    merged = merge_states(pl.concat(states), [], calls)
    registers = merged.to_series()[0] // 64
    assert registers.n_unique() == registers.len() == 512
