"""Random values: their ranges, their independence of batches, and where they are refused."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from headrace.core.expressions import ExpressionErrors, to_expr, type_expression
from headrace.core.expressions.random_bits import make_key
from headrace.core.expressions.typed import replace_random_bits
from headrace.core.types.data_types import INT, Array, Field, Schema
from headrace.core.types.elements import HIDDEN_COLUMNS
from headrace.core.types.row_order import add_row_order, number_rows
from tests.support.plans import over_orders, said
from tests.support.runtime.memory_pipelines import cut, simulated

SCHEMA = Schema((Field("n", INT), Field("a", Array(INT))))
COUNT = 20_000
ROWS = add_row_order(
    pl.DataFrame(
        {"n": range(COUNT), "a": [[1, 2, 3, 4], [7], [], None] * (COUNT // 4)},
        schema_overrides={"n": pl.Int32, "a": pl.List(pl.Int32)},
    ),
    number_rows(1, 2, 5, COUNT),
)


def values(text: str, frame: pl.DataFrame = ROWS, key: str = "") -> pl.Series:
    """Evaluate an expression, with another key for its random values if one is given."""
    typed = type_expression(text, SCHEMA, has_row_place=True)
    keyed = replace_random_bits(typed, lambda bits: replace(bits, key=make_key(key)))
    return frame.select(to_expr(keyed).alias("r"))["r"]


CALLS = ["rand()", "randn()", "uniform(-5, 5)", "uuid()", "randstr(7)", "shuffle(a)"]


@pytest.mark.parametrize("call", CALLS)
def test_a_row_has_the_same_value_in_any_batch(call: str) -> None:
    whole = values(call)
    pieces = [values(call, piece) for piece in ROWS.head(300).iter_slices(7)]
    assert pl.concat(pieces).equals(whole[:300])
    mixed = ROWS.sample(fraction=1, shuffle=True, seed=3)
    assert values(call, mixed).equals(whole.gather(mixed["n"]))
    assert not values(call, key="other").equals(whole)


def test_numbers_are_in_their_ranges_and_spread_over_them() -> None:
    fractions = values("rand()")
    assert 0 <= fractions.min() < 0.001 and 0.999 < fractions.max() < 1  # type: ignore[operator]
    assert abs(float(fractions.sum()) / COUNT - 0.5) < 0.01
    assert fractions.n_unique() == COUNT
    normal = values("randn()")
    assert abs(float(normal.sum()) / COUNT) < 0.03
    assert abs(float((normal**2).sum()) / COUNT - 1) < 0.03
    assert abs(int((normal.abs() < 1).sum()) / COUNT - 0.6827) < 0.015
    numbers = Counter(values("uniform(10, 20)"))
    assert sorted(numbers) == [*range(10, 20)] and min(numbers.values()) > COUNT / 11
    doubles = values("uniform(-1.5d, 2)")
    assert -1.5 <= doubles.min() < -1.49 and 1.99 < doubles.max() < 2  # type: ignore[operator]
    assert values("uniform(1, null)").to_list() == [None]
    pair = pl.DataFrame({"x": fractions, "y": values("rand()", key="other")})
    assert abs(pair.select(pl.corr("x", "y")).item()) < 0.03


def test_texts_have_their_shapes() -> None:
    pattern = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
    found = values("uuid()").to_list()
    assert all(map(pattern.fullmatch, found)) and len(set(found)) == COUNT
    texts = values("randstr(25)")
    assert texts.str.contains("^[0-9a-zA-Z]{25}$").all() and texts.n_unique() == COUNT
    letters = Counter("".join(texts))
    assert len(letters) == 62 and min(letters.values()) > COUNT * 25 / 62 * 0.9
    assert values("randstr(0)").unique().to_list() == [""]
    assert values("randstr(null)").to_list() == [None]


def test_arrays_are_in_every_order_equally_often() -> None:
    shuffled = values("shuffle(a)")
    assert shuffled.list.sort().equals(ROWS["a"].rename("r"))
    orders = Counter(tuple(each) for each in shuffled.gather_every(4))
    assert len(orders) == 24 and min(orders.values()) > COUNT / 4 / 24 * 0.7
    assert shuffled.gather_every(4, 1).to_list() == [[7]] * (COUNT // 4)


def test_calls_with_the_same_seed_have_the_same_values() -> None:
    seeds = [values(text, key=text[-2]) for text in ("rand(3)", "random(3)", "rand(4)")]
    assert seeds[0].equals(seeds[1]) and not seeds[0].equals(seeds[2])


PIPELINE = """
settings: {parallelism: PARALLELISM}
sources:
  s: {memory: {data: in}, schema: {n: bigint}}
steps:
  big: {from: s, where: n >= 0}
  twice: {from: big, with: {a: "array(n, -n)"}}
  t: {from: INPUT}
sinks:
  out: {from: t, memory: {data: out}}
  others: {from: twice, memory: {data: others}}
"""
NUMBERS = pl.DataFrame({"n": range(60)}, schema_overrides={"n": pl.Int64})
CLAUSES = "where: rand() < 0.8, select: {n: n, r: rand(), q: rand(), s: rand(7), u: uuid()}"


def run(folder: Path, step: str, seed: int = 0, settings: str = "") -> list[tuple[Any, ...]]:
    """Run a step with an order of tasks, a parallelism and batches by this seed."""
    splits = {
        f"split{at}": cut(NUMBERS.filter(pl.col("n") % 2 == at), 1 + 9 * seed) for at in (0, 1)
    }
    memory = InMemoryData({"in": splits})
    text = PIPELINE.replace("PARALLELISM", str(1 + seed % 3)).replace("INPUT", step)
    outcome = simulated(folder, text.replace("{par", f"{{{settings}par"), memory, seed)
    assert not outcome.failure
    frames = (frame.drop(HIDDEN_COLUMNS, strict=False) for frame in memory.outputs["out"])
    return [row for frame in frames for row in frame.iter_rows()]


@pytest.mark.parametrize("step", ["big", "[big, s]", "twice, explode: {e: a}"])
def test_a_job_gives_the_same_values_however_it_runs(tmp_path: Path, step: str) -> None:
    found = [Counter(run(tmp_path, f"{step}, {CLAUSES}", seed)) for seed in range(4)]
    assert found.count(found[0]) == 4
    number = 60 if step == "big" else 120
    assert number / 2 < sum(found[0].values()) < number
    assert all(r != q and r != s for _, r, q, s, _ in found[0])
    if step != "[big, s]":  # there a row comes twice
        assert len({row[1] for row in found[0]}) == len(found[0])


def test_another_seed_gives_other_values(tmp_path: Path) -> None:
    step = "s, select: {r: rand(), s: rand(7)}"
    first, again = sorted(run(tmp_path, step)), sorted(run(tmp_path, f"big, {step[3:]}"))
    assert first == again
    other = sorted(run(tmp_path, step, settings="seed: 1, "))
    assert not {r for r, _ in first} & {r for r, _ in other}
    assert not {s for _, s in first} & {s for _, s in other}


REFUSED = [
    "key: name, aggregate: {m: count(*)}, having: rand() < 0.5",
    "key: name, aggregate: {m: count(*) * rand()}",
    "key: name, aggregate: {m: count(*)}, select: {name: name, m: m, r: rand()}",
    "dedup: {key: name}, select: {r: uuid()}",
    'map: {python: "f.py:f", returns: {id: bigint}}, select: {r: uuid()}',
]


@pytest.mark.parametrize("step", REFUSED)
def test_rows_without_a_place_of_their_own_have_no_random_values(tmp_path: Path, step: str) -> None:
    (tmp_path / "f.py").write_text("def f(rows):\n    return rows\n")
    lines = said(tmp_path, over_orders(step))
    (line,) = (each for each in lines if "place of a row in its source" in each)
    assert "before rows are joined, aggregated or deduplicated" in line


def test_expressions_of_sources_have_no_random_values() -> None:
    with pytest.raises(ExpressionErrors, match="there is none here"):
        type_expression("rand()", SCHEMA)
    with pytest.raises(ExpressionErrors, match="a constant int"):
        type_expression("randstr(cast(rand() * 9 as int))", SCHEMA, has_row_place=True)
    with pytest.raises(ExpressionErrors, match="has one value for a row"):
        type_expression("transform(a, x -> x * rand())", SCHEMA, has_row_place=True)
    with pytest.raises(ExpressionErrors, match="not negative, got -1"):
        type_expression("randstr(-1)", SCHEMA, has_row_place=True)


def test_aggregates_and_keys_may_use_random_values(tmp_path: Path) -> None:
    step = "big, key: {half: rand() < 0.5}, aggregate: {m: max(rand()), c: count(*)}"
    found = set()
    for seed in range(3):
        last = {row[0]: row[:3] for row in run(tmp_path, step, seed)}
        found.add(tuple(sorted(last.values())))
    ((low, high),) = found
    assert low[2] + high[2] == 60 and low[2] > 15 and high[2] > 15


def test_a_sample_of_random_rows(tmp_path: Path) -> None:
    step = "big, top: {n: 5, by: rand()}, select: [n, rank]"
    found = [{row[1]: row[0] for row in run(tmp_path, step, seed)} for seed in range(3)]
    assert found.count(found[0]) == 3
    assert [*found[0].values()] != [*range(5)]
