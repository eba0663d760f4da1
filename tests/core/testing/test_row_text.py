"""Rows written as text: YAML from which the same values are read."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.interpolation import Interpolator
from headrace.core.pipeline.node_resolver import NodeResolver
from headrace.core.pipeline.pipeline_tests.section_nodes import SectionNodes
from headrace.core.pipeline.sections import KeyedNode
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.composer import compose_document
from headrace.core.pipeline.yaml_document.nodes import YamlMapping
from headrace.core.pipeline.yaml_document.source_file import SourceText
from headrace.core.testing.row_text import RowWriter, UnwritableValue, write_text
from headrace.core.testing.written_values import ValueConverter
from headrace.core.types.data_types import Field, Schema, Type
from headrace.core.types.type_parser import parse_type
from tests.support.paths import ROOT

DAY = date(2026, 1, 31)
TEN = datetime(2026, 1, 31, 10, tzinfo=UTC)


def parse(type: str) -> Type:
    parsed, _ = parse_type(type)
    return parsed


def write(value: object, type: str, day: date | None = DAY) -> str:
    return RowWriter(day).write_value(value, parse(type))


def read_back(text: str, type: Type, name: str = "v") -> object:
    """Read the value of a row as a test of a pipeline does."""
    file = SourceText("t.yaml", f"rows: [{text}]")
    root, problems = compose_document(file)
    assert isinstance(root, YamlMapping)
    assert not problems
    findings = DocumentProblems()
    nodes = SectionNodes(NodeResolver(Interpolator(ROOT, {}), findings))
    ((key, spot),) = [(e.key, e.value) for e in root.entries]
    rows = nodes.read_rows(KeyedNode(Text(key.value, key), spot))
    assert rows is not None, findings.problems
    assert not findings.problems
    (found,) = rows[0].values.items()
    assert found[0] == name
    return ValueConverter(DAY).convert(found[1], type)


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (None, "int", "null"),
        (5, "int", "5"),
        (True, "boolean", "true"),
        (0.1, "double", "0.1"),
        (0.10000000149011612, "float", "0.1"),
        (math.inf, "double", "inf"),
        (Decimal("1.50"), "decimal(4,2)", "1.50"),
        (Decimal("1E+2"), "decimal(4,0)", "100"),
        ("a", "string", "a"),
        ("new york", "string", "new york"),
        ("null", "string", '"null"'),
        ("5", "string", '"5"'),
        ("", "string", '""'),
        ("a: b # c", "string", '"a: b # c"'),
        ("${env:HOME}", "string", '"$${env:HOME}"'),
        ("\u200b\U000e0001", "string", '"\\u200b\\U000e0001"'),
        (b"hi", "binary", '"aGk="'),
        (DAY, "date", "2026-01-31"),
        (TEN, "timestamp", '"10:00:00"'),
        (TEN.replace(microsecond=250_000), "timestamp", '"10:00:00.25"'),
        (TEN.replace(day=30), "timestamp", '"2026-01-30T10:00:00Z"'),
        (TEN.replace(tzinfo=None), "timestamp_ntz", '"10:00:00"'),
        (TEN.replace(tzinfo=None, day=30), "timestamp_ntz", '"2026-01-30T10:00:00"'),
        (time(10, 0, 5), "time(6)", '"10:00:05"'),
        ([1, None], "array<int>", "[1, null]"),
        ({"a b": 1}, "map<string,int>", "{a b: 1}"),
        ({"a": 1, "b": None}, "struct<a:int,b:string>", "{a: 1, b: null}"),
    ],
)
def test_values_are_written_as_by_a_person(value: object, type: str, text: str) -> None:
    assert write(value, type) == text
    assert read_back(f"{{v: {text}}}", parse(type)) == value


def test_times_of_a_test_without_a_date_are_whole() -> None:
    assert write(TEN, "timestamp", None) == '"2026-01-31T10:00:00Z"'


@pytest.mark.parametrize("type", ["interval day", "array<interval month>"])
def test_a_value_of_a_type_that_a_test_cannot_have_is_refused(type: str) -> None:
    value: object = [1] if type.startswith("a") else 1
    with pytest.raises(UnwritableValue, match="a test cannot have values of type"):
        write(value, type)


VALUES = {
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
    "decimal(20,3)": st.decimals(-(10**16), 10**16, places=3),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "time(6)": st.times(),
    "date": st.dates(),
    "binary": st.binary(),
    "array<string>": st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))),
}


@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_what_is_written_is_read_as_the_same_value(data: st.DataObject, type: str) -> None:
    value = data.draw(VALUES[type])
    schema = Schema((Field("v", parse(type)),))
    assert read_back(RowWriter(DAY).write_row({"v": value}, schema), parse(type)) == value


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_of_a_column_is_read_as_it_is(name: str) -> None:
    if "${" in name:
        return
    assert read_back(f"{{{write_text(name)}: 1}}", parse("int"), name) == 1
