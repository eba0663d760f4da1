"""Queries on the page of SQL: each has the plan, or the error, that the page says."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent, indent

import pytest

from docs.snippets import ROOT
from tests.support.plans import built
from tests.support.sql_steps import build_steps, describe_steps

PAGE = (ROOT / "docs" / "sql.md").read_text("utf-8")
BLOCK = re.compile(r"^( *)```(sql|yaml)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
QUERY = re.compile(r"`(select .*?)`")


def cut_section(heading: str) -> str:
    """Return the text below a heading, to the next one."""
    text = PAGE.partition(f"{heading}\n")[2]
    assert text, f"docs/sql.md has no {heading}"
    return re.split(r"^#", text, maxsplit=1, flags=re.MULTILINE)[0]


def list_blocks(text: str) -> list[str]:
    return [dedent(body) for _, _, body in BLOCK.findall(text)]


SOURCES, *STEPS = list_blocks(cut_section("## Ten queries people write most"))
PAIRS = [*zip(STEPS[::2], STEPS[1::2], strict=True)]


def write_pipeline(steps: str) -> str:
    """Return a pipeline with the sources of the page, each of which is read."""
    names = re.findall(r"^  (\w+):$", SOURCES, re.MULTILINE)
    sinks = "".join(f"  {name}_out: {{from: {name}, console: {{}}}}\n" for name in names)
    out = "  out: {from: q, files: {path: out, changelog: full}}\n"
    return f"name: page\n{SOURCES}steps:\n{indent(steps, '  ')}\nsinks:\n{out}{sinks}"


def write_query(sql: str) -> str:
    return write_pipeline(f"q:\n  sql: |\n{indent(sql.strip(), '    ')}")


def list_rows(heading: str) -> list[list[str]]:
    """Return the cells of the rows of the table below a heading."""
    lines = [line for line in cut_section(heading).splitlines() if line.startswith("|")]
    return [line.strip("| ").split(" | ") for line in lines[2:]]


def test_there_are_ten_queries() -> None:
    assert len(PAIRS) == 10


@pytest.mark.parametrize(("sql", "yaml"), PAIRS)
def test_a_query_has_the_plan_of_its_yaml(tmp_path: Path, sql: str, yaml: str) -> None:
    found = describe_steps(build_steps(tmp_path, write_query(sql)))
    assert found == describe_steps(build_steps(tmp_path, write_pipeline(yaml)))


ACCEPTED = [
    query for row in list_rows("### Accepted as in Flink") for query in QUERY.findall(row[1])
]


@pytest.mark.parametrize("sql", ACCEPTED)
def test_a_form_of_flink_is_accepted(tmp_path: Path, sql: str) -> None:
    assert build_steps(tmp_path, write_query(sql))


REFUSED = [
    (flink, here)
    for row in list_rows("### Refused, with what to write")
    for flink, here in zip(QUERY.findall(row[0]), QUERY.findall(row[1])[:1], strict=True)
]


@pytest.mark.parametrize(("flink", "here"), REFUSED)
def test_a_form_of_flink_is_refused_with_a_hint(tmp_path: Path, flink: str, here: str) -> None:
    plan, problems = built(tmp_path, write_query(flink))
    errors = [problem for problem in problems if problem.severity == "error"]
    assert plan is None
    assert errors and all(error.hint for error in errors)
    assert build_steps(tmp_path, write_query(here))


def test_the_tables_have_queries() -> None:
    assert len(ACCEPTED) > 10 and len(REFUSED) > 10
