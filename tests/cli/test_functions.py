"""The functions of expressions, as the command line lists them."""

import json

import pytest

from headrace.core.aggregates.catalog import ENTRIES, ENTRIES_BY_NAME, group_by_family
from tests.support.cli.command_line import Headrace


def test_every_function_is_listed_with_its_sentence(headrace: Headrace) -> None:
    ran = headrace("functions")
    assert (ran.status, ran.err) == (0, "")
    listed = {
        line[2:].split("  ")[0]: line for line in ran.out.splitlines() if line.startswith("  ")
    }
    for row in ENTRIES:
        assert listed[row.name].endswith(row.doc)


def test_families_are_headings(headrace: Headrace) -> None:
    headings = [line for line in headrace("functions").out.splitlines() if line[:1].strip()]
    assert headings == list(group_by_family())


def test_one_function_is_explained_under_any_of_its_names(headrace: Headrace) -> None:
    ran = headrace("functions", "COALESCE()")
    row = ENTRIES_BY_NAME["coalesce"]
    assert ran.out.startswith(f"{row.signatures[0]}\n")
    assert row.doc in ran.out
    assert all(text in ran.out and value in ran.out for text, value in row.examples)
    for name in (alias for row in ENTRIES for alias in row.aliases):
        assert (
            headrace("functions", name).out == headrace("functions", ENTRIES_BY_NAME[name].name).out
        )


def test_an_aggregate_shows_the_rows_of_its_examples(headrace: Headrace) -> None:
    assert "where n is 1, 2, 2, NULL" in headrace("functions", "sum").out


def test_operators_are_explained_too(headrace: Headrace) -> None:
    assert "<=>" in headrace("functions", "<=>").out


def test_a_misspelt_function_is_answered_with_the_near_one(headrace: Headrace) -> None:
    ran = headrace("functions", "coalezce")
    assert ran.status == 2
    assert ran.err == ('no function has "coalezce" in its name or text, did you mean "coalesce"?\n')


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("strftime", "as in date_format("),
        ("format_datetime", "as in date_format("),
        ("rtrlm", "rtrim"),
    ],
)
def test_a_function_of_another_system_is_answered_by_its_meaning(
    headrace: Headrace, name: str, hint: str
) -> None:
    assert hint in headrace("functions", name).err


def test_a_function_of_spark_s_that_is_to_come_says_so(headrace: Headrace) -> None:
    ran = headrace("functions", "CREATE_MAP")
    assert ran.status == 2
    assert ran.err == "create_map is a function of Spark that is not built yet\n"


def test_a_function_that_is_refused_on_purpose_is_answered_with_the_way_out(
    headrace: Headrace,
) -> None:
    ran = headrace("functions", "ROW_NUMBER")
    assert ran.status == 2
    assert ran.err == (
        "row_number is a function of Spark that is not supported: functions over the rows of a key"
        " belong into over: of a step, over: {previous: lag(price)}; top: {n: 1, by: price desc}"
        " ranks by other values\n"
    )


def test_a_word_lists_what_has_it_in_a_name_or_a_text(headrace: Headrace) -> None:
    ran = headrace("functions", "Position")
    assert (ran.status, ran.err) == (0, "")  # an alias: one function is explained
    assert ran.out == headrace("functions", "locate").out
    listed = headrace("functions", "the first occurrence of the part").out.splitlines()
    assert listed[0] == "strings"
    assert [line.split()[0] for line in listed[1:]] == ["instr", "locate"]
    by_name = headrace("functions", "ceilin").out.splitlines()
    assert by_name[0] == "numbers"
    assert by_name[1].startswith("  ceil  ")  # ceiling is an alias


def test_a_function_of_spark_s_that_is_to_come_is_searched_too(headrace: Headrace) -> None:
    ran = headrace("functions", "bucket")
    assert ran.status == 0
    assert "  width_bucket  " in ran.out
    assert ran.err == (
        "bucket is a function of Spark that is not built yet; these have the word in their text\n"
    )


def test_a_search_gives_json_too(headrace: Headrace) -> None:
    rows = json.loads(
        headrace("functions", "the first occurrence of the part", "--format", "json").out
    )
    assert [row["name"] for row in rows] == ["instr", "locate"]


def test_json_has_all_of_it(headrace: Headrace) -> None:
    rows = json.loads(headrace("functions", "--format", "json").out)
    assert [row["name"] for row in rows] == [row.name for row in ENTRIES]
    (row,) = json.loads(headrace("functions", "coalesce", "--format", "json").out)
    assert set(row) == {"name", "family", "doc", "signatures", "aliases", "examples"}
    assert set(row["examples"][0]) == {"expression", "value"}
