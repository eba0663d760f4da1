"""The queries of Nexmark as SQL: each has the plan of the one in YAML, or gives the same rows.

Both are the rows of DuckDB: `test_queries.py` compares the rows of those in YAML with them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.cli.pipeline_file import check_pipeline
from headrace.core.plan import nodes
from tests.support.nexmark import CONFIGS, QUERIES, connectors, output, step_us, wanted
from tests.support.nexmark_runs import run_query

EQUAL = ["q0", "q1", "q2", "q10", "q11", "q12", "q13", "q15", "q16", "q17", "q18", "q19", "q22"]
"""The queries whose plans are those of YAML: texts, operations and state."""
OTHER = ["q3", "q4", "q5", "q6", "q7", "q8", "q9", "q14", "q20", "q21"]
"""The queries whose plans have other steps, names or texts."""
FEWER = 10
"""By how much fewer and further apart events are than in the tests of those in YAML."""
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
OWN_NAME = re.compile(r"span=Span\(start=0, end=\d+\), name='(\w+)'\), text='\1'")
"""A column under its own name in a mapping, as in `{day: to_date(at), channel: channel}`."""


def test_each_query_is_sql() -> None:
    assert sorted(EQUAL + OTHER) == sorted(QUERIES)
    shipped = {path.stem for path in (CONFIGS / "sql").glob("*.yaml")}
    assert shipped == {*EQUAL, *OTHER}


def list_steps(config: Path) -> list[str]:
    """Return what the steps of a pipeline do, as text: functions have no equality of their own."""
    plan = check_pipeline(str(config), ()).plan
    assert plan is not None
    steps = (ADDRESS.sub("", repr(each)) for each in plan.parts if isinstance(each, nodes.Step))
    plain = r"span=Span(start=0, end=0), name='\1'), text=''"
    # The file of q13 is beside the queries in YAML.
    return [OWN_NAME.sub(plain, each).replace("path='../", "path='") for each in steps]


@pytest.mark.parametrize("query", EQUAL + OTHER)
def test_equal_plans_are_those_that_are_listed(query: str) -> None:
    written = list_steps(CONFIGS / "sql" / f"{query}.yaml")
    is_equal = written == list_steps(CONFIGS / f"{query}.yaml")
    assert is_equal == (query in EQUAL)


@pytest.mark.parametrize("query", OTHER)
def test_a_query_gives_the_rows_that_duckdb_has(tmp_path: Path, query: str) -> None:
    count, apart_us = 20_000 // FEWER, step_us(query) * FEWER
    run_query(tmp_path, f"sql/{query}.yaml", connectors(query, count, apart_us), seed=3)
    rows = wanted(query, count, apart_us)
    assert rows
    assert output(query, tmp_path, "nexmark/sql") == rows
