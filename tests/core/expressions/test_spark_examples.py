"""Spark's own examples of its functions have Spark's answers here, or are refused.

tests/core/spark/test_spark_examples.py asks a live Spark whether the record is still right.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal as PythonDecimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import SPARK_OUTCOMES
from tests.support.spark.example_statements import SelectStatement, find_statements, parse_select
from tests.support.spark.sql_values import encode
from tests.support.spark_examples import Example, load_record, run_examples, summarize

KNOWN_DIFFERENCES: dict[str, str] = {}
"""Statements whose answer is not Spark's, each with the reason."""

STORE = "python -m tests.support.spark_examples stores it, make docs counts it"


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Example]]:
    yield run_examples(tmp_path_factory.mktemp("examples"))


def stored() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(SPARK_OUTCOMES.read_text("utf-8"))
    return found


def test_no_example_has_another_answer_than_spark(examples: list[Example]) -> None:
    found = {each.statement: each.reason for each in examples if each.outcome == "different"}
    assert found.keys() == KNOWN_DIFFERENCES.keys(), "\n".join(found.values())


def test_every_example_that_was_the_same_still_is(examples: list[Example]) -> None:
    before = stored()
    lost = [
        f"{each.function}: {each.statement}: {each.outcome}: {each.reason}"
        for each in examples
        if each.outcome != "same" and each.statement in before[each.function]["same"]
    ]
    assert not lost, "\n".join(lost)


def test_the_stored_outcomes_are_current(examples: list[Example]) -> None:
    assert summarize(examples) == stored(), STORE


def test_every_refusal_has_a_reason(examples: list[Example]) -> None:
    assert all(each.reason for each in examples if each.outcome != "same")


def test_the_examples_are_those_of_the_record(examples: list[Example]) -> None:
    functions = load_record()["functions"]
    assert len(examples) == sum(len(each["examples"]) for each in functions.values()) > 1300


def test_an_answer_that_is_not_spark_s_is_different(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = load_record()
    for name, value in (("abs", "-1"), ("sum", "31"), ("upper", "x")):
        function = changed["functions"][name]
        function["examples"] = function["examples"][:1]
        function["examples"][0]["columns"][0]["values"] = [value]
    (other,) = changed["functions"]["lower"]["examples"]
    other["columns"][0]["type"] = "int"
    names = ("abs", "sum", "upper", "lower", "concat")
    changed["functions"] = {name: changed["functions"][name] for name in names}
    monkeypatch.setattr("tests.support.spark_examples.load_record", lambda: changed)
    found = {each.function: each.outcome for each in run_examples(tmp_path)}
    assert found == dict.fromkeys(names[:4], "different") | {"concat": "same"}


def test_statements_are_found_in_documentation() -> None:
    text = "Examples:\n  > SELECT 1;\n   1\n  > SELECT\n      '> ;';\n   2\n"
    assert find_statements(text) == ["SELECT 1", "SELECT '> ;'"]


def test_a_select_list_is_split_at_its_own_commas() -> None:
    text = r"SELECT f(a, b), 'x, \', y' AS c, array(1, 2)[0]"
    parts = ("f(a, b)", r"'x, \', y'", "array(1, 2)[0]")
    assert parse_select(text) == SelectStatement(parts, "")


def test_an_inline_table_is_kept_apart_from_the_list() -> None:
    text = "SELECT extract(day FROM d), mode() WITHIN GROUP (ORDER BY a) FROM VALUES (1, 2) t(a, d)"
    parts = ("extract(day FROM d)", "mode() WITHIN GROUP (ORDER BY a)")
    assert parse_select(text) == SelectStatement(parts, "VALUES (1, 2) t(a, d)")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM VALUES (1) t(a) GROUP BY a",
        "SELECT rank() OVER (ORDER BY a) FROM VALUES (1) t(a)",
        "SELECT a FROM (SELECT 1 AS a)",
        "SELECT * FROM range(3)",
        "SELECT a FROM t",
    ],
)
def test_other_queries_have_no_select_list(text: str) -> None:
    assert parse_select(text) is None


def test_nested_types_are_encoded_by_their_parts() -> None:
    type = "struct<a:struct<x:int,y:array<double>>,m:map<string,decimal(4,2)>>"
    value = {"a": {"x": 1, "y": [float("nan")]}, "m": {"k": PythonDecimal(1)}}
    assert encode(value, type) == {"a": {"x": 1, "y": ["NaN"]}, "m": [["k", "1.00"]]}
