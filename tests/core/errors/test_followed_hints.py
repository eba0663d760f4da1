"""Hints that are followed lead to no other error: every hint of the tables of mistakes is tried.

The tables are those of other tests: broken documents, mistakes in steps, and refused expressions. A
hint that proposes a text in words that `hint_application` does not know is an error here too.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headrace.core.aggregates import type_aggregates
from headrace.core.errors.problems import Problem
from headrace.core.expressions import ExpressionErrors, foreign_functions, type_expression
from headrace.core.expressions.functions import FUNCTIONS
from headrace.core.expressions.parsing.parser import parse_expression
from headrace.core.types.data_types import Field, Schema
from headrace.core.types.type_parser import parse_type
from tests.core.plan import test_builder, test_joins, test_keyed_errors
from tests.support.hint_application import (
    Edit,
    Mistake,
    extend_to_value,
    find_examples,
    follow_hint,
    locate,
    proposes_text,
)
from tests.support.pipeline.broken_documents import all_cases, loaded
from tests.support.plans import built, over_orders

Check = Callable[[str], list[Mistake]]

OTHER_MISTAKES = re.compile(
    r'^missing key "|^unknown key "a"|" needs "|^the environment variable'
    r"|^a pipeline is one mapping|^csv.quote: "
)
"""Errors of the tables' texts that are beside what the hint is about, and were hidden by it."""

EXAMPLE_COLUMNS = {
    **foreign_functions.PLACEHOLDERS,
    **{
        "a": "int",
        "b": "int",
        "first": "boolean",
        "second": "boolean",
        "part": "string",
        "id": "int",
    },
    "x": "double",
}


def get_rows(test: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a test's parameters."""
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            names = mark.args[0]
            names = [names] if isinstance(names, str) else names
            for row in mark.args[1]:
                values = getattr(row, "values", row)
                yield dict(zip(names, [values] if len(names) == 1 else values, strict=True))


def find_mistakes(text: str, problems: tuple[Problem, ...]) -> list[Mistake]:
    """Return the problems that have a place in the text of the file."""
    places = ((each, each.location) for each in problems if each.severity == "error")
    return [
        Mistake(text, *locate(text, place), each.message, each.hint)
        for each, place in places
        if place and place.line and place.file.endswith("p.yaml")
    ]


def try_hints(text: str, check: Check) -> int:
    """Follow every hint of a text; return how many were followed."""
    tried = 0
    for mistake in check(text):
        assert not re.search(r"(?<![\w.])([a-z]{2,}) \1\b", mistake.message), mistake.message
        if not proposes_text(mistake.hint):
            continue
        edits = follow_hint(mistake)
        assert edits, f"no form is known for the hint: {mistake.hint}"
        for edit in edits:
            if "..." not in edit.text[edit.start : edit.end]:
                wrong = find_errors_at(edit, mistake, check)
                assert not wrong, f"{mistake.message} [{mistake.hint}]\n{edit.text}\n{wrong}"
                tried += 1
    return tried


def find_errors_at(edit: Edit, mistake: Mistake, check: Check) -> list[str]:
    """Return the errors at the characters that were put in."""
    if is_other_name(mistake):
        edit = extend_to_value(edit)
    return [
        f"{each.message} [{each.hint}]"
        for each in check(edit.text)
        if (each.start < edit.end and edit.start < each.end) or each.start == edit.start
        if not OTHER_MISTAKES.search(each.message)
        if not (", as in" in mistake.hint and each.message.startswith("unknown column"))
    ]


def is_other_name(mistake: Mistake) -> bool:
    """Whether a hint proposes another word, and not another spelling, so the value may not fit."""
    proposed = re.fullmatch(r'did you mean "(.+)"\?', mistake.hint)
    written = mistake.text[mistake.start : mistake.end]
    return bool(proposed) and not difflib.get_close_matches(
        written, [proposed[1] if proposed else ""]
    )


def check_document(text: str, overrides: tuple[str, ...]) -> list[Mistake]:
    return find_mistakes(text, loaded(text, overrides).problems)


BROKEN = list(all_cases())


@pytest.mark.parametrize("file", sorted({file for file, _ in BROKEN}))
def test_hints_about_documents(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for case in (case for of, case in BROKEN if of == file):
        try_hints(case.document, partial(check_document, overrides=case.overrides))


FIRST_USE = (
    "select: select id from orders",
    "select: select id, upper(name) as shout from orders",
    "select: upper(name)",
    "select: id + 1, name",
    "select: [*, id]",
    "select: ['*', id]",
    "select: '*'",
    "limit: 10",
    "distinct: true",
    "distinct: id",
    "order_by: id",
    "sort: id desc",
    "group_by: id, agg: {n: count(*)}",
    "filter: id > 1",
    "flatten: tags",
    "with: {d: strftime(at, '%Y')}",
    "with: {d: 'datediff(''day'', at, at)'}",
    "with: {n: 'row_number() over (partition by id)'}",
    "with: {n: 'lag(id) over (order by at)'}",
    "where: nam == 'a'",
    "where: extra is None",
)
"""Steps of somebody who knows SQL, and is new here."""

TABLES: tuple[tuple[Any, Callable[[str], str]], ...] = (
    (test_builder.test_an_error_in_a_step_is_reported, over_orders),
    (test_keyed_errors.test_an_error_in_a_keyed_step_is_reported, over_orders),
    (
        test_keyed_errors.test_what_would_lose_sight_of_a_row_takes_no_changes,
        test_keyed_errors.over_changes,
    ),
    (test_joins.test_mistakes, test_joins.over_both),
)


@pytest.mark.parametrize("table", range(len(TABLES)))
def test_hints_about_steps(table: int, tmp_path: Path) -> None:
    test, make = TABLES[table]
    for row in get_rows(test):
        try_hints(make(row["step"]), lambda text: find_mistakes(text, built(tmp_path, text)[1]))


@pytest.mark.parametrize("step", FIRST_USE)
def test_hints_of_first_use(step: str, tmp_path: Path) -> None:
    text = over_orders(step)
    assert find_mistakes(text, built(tmp_path, text)[1])
    try_hints(text, lambda text: find_mistakes(text, built(tmp_path, text)[1]))


EXPRESSION_TESTS = tuple(
    importlib.import_module(f"tests.core.expressions.{name}")
    for name in (
        *("parsing.test_foreign_syntax", "functions.test_logic", "functions.test_times"),
        *("functions.test_collections", "functions.test_strings", "functions.test_intervals"),
        *("arithmetic.test_numbers", "arithmetic.test_decimals", "casts.test_casts"),
    )
)


def check_expression(text: str, schema: Schema) -> list[Mistake]:
    try:
        type_expression(text, schema)
    except ExpressionErrors as caught:
        return [
            Mistake(text, each.span.start, each.span.end, each.message, each.hint)
            for each in caught.errors
        ]
    return []


@pytest.mark.parametrize("module", EXPRESSION_TESTS, ids=lambda module: module.__name__)
def test_hints_about_expressions(module: ModuleType) -> None:
    texts = [
        row["text"]
        for name, test in vars(module).items()
        if name.startswith("test_")
        for row in get_rows(test)
        if isinstance(row.get("text"), str)
    ]
    assert texts
    for text in texts:
        try_hints(text, lambda text: check_expression(text, module.SCHEMA))
        for mistake in check_expression(text, module.SCHEMA):
            for example in find_examples(mistake.hint):
                assert is_valid_example(example), f"{mistake.message} [{mistake.hint}]"


def is_valid_example(text: str) -> bool:
    """Whether the text is a valid expression over columns named as in examples."""
    schema = make_schema(EXAMPLE_COLUMNS)
    if not check_expression(text, schema):
        return True
    try:
        return bool(type_aggregates(parse_expression(text), schema, Schema(())))
    except ExpressionErrors:
        return False


def make_schema(columns: Mapping[str, str]) -> Schema:
    return Schema(tuple(Field(name, *parse_type(type)) for name, type in columns.items()))


def test_functions_of_other_systems_are_named_by_valid_expressions() -> None:
    schema = make_schema(foreign_functions.PLACEHOLDERS)
    for name, text in foreign_functions.FOREIGN_FUNCTIONS.items():
        assert name not in FUNCTIONS
        assert not check_expression(text, schema), f"{name}: {text}"
    for name, text in foreign_functions.FOREIGN_AGGREGATES.items():
        assert name not in FUNCTIONS
        type_aggregates(parse_expression(text), schema, Schema(()))
