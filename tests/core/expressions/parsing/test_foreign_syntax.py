"""Hints for the syntax of other languages: what to write instead, at the right position."""

# ruff: noqa: RUF001 - look-alikes of plain signs are the subject of these tests
from __future__ import annotations

import pytest

from headrace.core.expressions import ExpressionErrors, type_expression
from headrace.core.expressions.typed import ProcessingTime, walk
from headrace.core.types.data_types import Field, Schema
from headrace.core.types.type_parser import parse_type

COLUMNS = {
    **{"id": "bigint", "s": "string", "day": "date", "at": "timestamp"},
    **{"a": "boolean", "b": "boolean", "x": "double", "n": "int"},
}
SCHEMA = Schema(tuple(Field(name, *parse_type(type)) for name, type in COLUMNS.items()))


@pytest.mark.parametrize(
    ("text", "message", "at", "hint"),
    [
        # Names.
        (
            "bucket(s)",
            'function "bucket" is not built yet',
            "bucket",
            "a Python function can compute it: map: {python: FILE.py:NAME, returns: {...}}",
        ),
        ("hours(at)", 'function "hours" is not built yet', "hours", 'did you mean "hour"?'),
        ("o.id", 'unknown column "o"', "o.id", "write id: names have no table prefix"),
        ("s.length", 'no field "length": string has no fields', "s.length", "write length(s)"),
        # Functions of other systems.
        ("strftime(at, '%Y')", 'unknown function "strftime"', "strftime", "as in date_format(time"),
        ("rtirm(s)", 'unknown function "rtirm"', "rtirm", 'did you mean "rtrim"?'),
        ("strftime(at)", "unknown", "strftime", "as in date_format(time, 'yyyy-MM-dd')"),
        (
            "json_extract(s, '$.a')",
            "unknown function",
            "json_extract",
            "as in get_json_object(text",
        ),
        ("isnull(n, 0)", "takes 1 argument, got 2", "isnull(n, 0)", "as in coalesce(value, other)"),
        ("datediff('day', at, at)", "a unit has no quotes here", "'day'", "write DAY"),
        ("timestampdiff('HOUR', at, at)", "a unit has no quotes here", "'HOUR'", "write HOUR"),
        ("day - s", "- wants a number, got string", "s", "to_date(...) reads text"),
        ("s + interval 1 day", "+ wants a number, got string", "s", "to_timestamp(...) reads"),
        (
            "row_number() over (order by at)",
            "belong into over: of a step",
            "over",
            "over: {previous",
        ),
        ("lag(n) over (order by at)", "belong into over: of a step", "over", "over: {previous"),
        ("sum(n) over (order by at)", "belong into over: of a step", "over", "over: {total"),
        ("a.foo()", "a value has no methods", "a.foo()", "a Python function can compute it"),
        ("rtirm(array(s))", 'unknown function "rtirm"', "rtirm", "`headrace functions` lists them"),
        # Expressions that are NULL for every row.
        (
            "date_trunc('FORTNIGHT', at)",
            "'FORTNIGHT' is not a unit",
            "'FORTNIGHT'",
            "MONTH, QUARTER",
        ),
        ("trunc(day, 'hour')", "'hour' is not a unit", "'hour'", "WEEK, MONTH, QUARTER, YEAR"),
        ("next_day(day, 'foo')", "'foo' is not a day of the week", "'foo'", "MONDAY"),
        # Literals that only Spark accepts.
        (
            "cast('epoch' as timestamp)",
            "'epoch' is not a timestamp",
            "'epoch'",
            "date '1970-01-01'",
        ),
        ("' Today '::date", "' Today ' is not a date", "' Today '", "current_date()"),
        ("at < 'now'", "'now' is not a timestamp", "'now'", "current_timestamp()"),
        ("to_date('epoch')", "'epoch' is not a date", "'epoch'", "date '1970-01-01'"),
        # Backslashes that a string loses.
        (r"s rlike '\d+'", r"loses the backslash of \d", r"'\d+'", r"r'\d+'"),
        (
            r"split(s, '\.')",
            r"loses the backslash of \.",
            r"'\.'",
            r"a raw string keeps it, as in r'\d+'",
        ),
        (
            r"regexp_replace(s, 'a' '\bx', '')",
            r"backslash of \b",
            r"'a' '\bx'",
            r"a raw string keeps it, as in r'\d+'",
        ),
        (
            r"regexp_extract(s, '(\w)')",
            r"backslash of \w",
            r"'(\w)'",
            r"a raw string keeps it, as in r'\d+'",
        ),
        # Types.
        ("date_add(day, s)", "days must be an int, got string", "s", "cast(... as int)"),
        ("abs()", "abs takes 1 argument", "abs()", "abs(value: N) -> N"),
        # Words and signs of other languages.
        ("(select max(id) from t)", "a query is not allowed", "select", "a step of its own"),
        ("id in (select id from t)", "a query is not allowed", "select", "a step of its own"),
        ("select * from t", "starts without select", "select", "follows select"),
        ("id;", '";" means nothing here', ";", "an expression ends without it"),
        ("s = ‘a’", '"‘" means nothing here', "‘", "plain quotes"),
        ("s = “a”", '"“" means nothing here', "“", "plain quotes"),
        ("s = 'a’", "does not end", "'a’", "close it with ', not with ’"),
        ("s === 'a'", '"===" means nothing here', "===", 'write "="'),
        ("a =! b", '"=!" means nothing here', "=!", 'write "<>"'),
        ("a <> = b", 'wanted a value, got "="', "<> =", 'write "<>"'),
        ("x < = 1", 'wanted a value, got "="', "< =", 'write "<="'),
        ("n =< 1", '"=<" means nothing here', "=<", 'write "<="'),
        ("n ≥ 1", '"≥" means nothing here', "≥", 'write ">="'),
        ("x ** 2", '"**" means nothing here', "**", "power(a, b)"),
        ("n // 2", '"//" means nothing here', "//", "a div b"),
        ("x if a else n", 'got "if"', "if", "if(condition, value, other)"),
        ("if a then x else n", 'got "a"', "a", "if(condition, value, other)"),
        ("a ? x : n", '"?" means nothing here', "?", "if(condition, value, other)"),
        ("s.upper()", "a value has no methods", "s.upper()", "write upper(s)"),
        ("s.left(2)", "a value has no methods", "s.left(2)", "write left(s, 2)"),
        ("distinct id", "only inside an aggregate", "distinct", "count(distinct id)"),
        ("o.*", "* is not a value", "o.*", "each column by its name"),
        ("*", "* is not a value", "*", "each column by its name"),
        ("n + {{ id }}", '"{{ id }}" means nothing', "{{ id }}", "its plain name: id"),
        ("${id} + 1", '"${id}" means nothing', "${id}", "its plain name: id"),
        ("@id", '"@id" means nothing', "@id", "its plain name: id"),
        ("id is not None", 'got "None"', "None", 'write "null"'),
        ("s in ['a']", 'wanted "(", got "["', "[", "in ('a', 'b')"),
        ("s contains 'a'", 'got "contains"', "contains", "as in contains(text, part)"),
        ("n++", "wanted a value, got the end", "+", "values are not changed in place"),
        ("n += 1", 'wanted a value, got "="', "=", "values are not changed in place"),
        ("n := 1", 'got ":"', ":", "values are not changed in place"),
        ("s like %a%", 'wanted a value, got "%"', "%a%", "in quotes: '%a%'"),
        ("(s not like a%)", 'wanted a value, got ")"', "a%", "in quotes: 'a%'"),
        ("s rlike /^a/", 'wanted a value, got "/"', "/^a/", "in quotes: '^a'"),
        ("s like 'a' b", 'wanted an operator or the end, got "b"', "b", ""),
        ("s ~ 'a'", 'got "~"', "~", 'write "rlike"'),
        ("s !~ 'a'", 'got "!"', "!~", 'write "not rlike"'),
        ("n ! = 1", 'got "!"', "! =", 'write "<>"'),
        ("n not = 1", 'got "not"', "not =", 'write "<>"'),
        ("n is 1", 'got "1"', "is 1", 'write "= 1"'),
        ("s is not 'a'", "got \"'a'\"", "is not 'a'", "write \"<> 'a'\""),
        ("n gte 1", 'got "gte"', "gte", 'write ">="'),
        ("n mod 2", 'got "mod"', "mod", 'write "%"'),
        ("n > 1 and < 5", 'wanted a value, got "<"', "<", "both sides of and"),
        (
            "n = 1 or 2",
            "or wants boolean, got int",
            "2",
            "full comparison on both sides of or, or wr",
        ),
        ("n = 1 or 2 or 3", "or wants boolean", "2", "or write n in (..., ...)"),
        ("a or n = 1 or 2", "or wants boolean", "2", "or write n in (..., ...)"),
        ("s = 'x' or 'y'", "or wants boolean, got string", "'y'", "or write s in (..., ...)"),
        ("1 or n = 2", "or wants boolean, got int", "1", "or write n in (..., ...)"),
        ("n > 1 and 5", "and wants boolean, got int", "5", "full comparison on both sides of and"),
        ("s like 'x%' or 'y%'", "or wants boolean", "'y%'", "full comparison on both sides of or"),
        ("a or n", "or wants boolean, got int", "n", "compare it: ... <> 0"),
        ("a and s", "and wants boolean, got string", "s", "compare it"),
        ("not n", "not wants boolean, got int", "n", "compare it: ... <> 0"),
        ("1 < n <= 5", "<= cannot compare boolean with int", "1 < n <= 5", "compare twice"),
        ("n between 1, 5", 'wanted "and", got ","', ",", 'write "and"'),
        ("cast(n, 'bigint')", 'wanted "as", got ","', ",", "as in cast(value as bigint)"),
        ("at - 5 minutes", 'got "minutes"', "5 minutes", "write interval 5 minutes"),
        ("f'{id}'", "got \"'{id}'\"", "'{id}'", "as in concat('a', text), or join texts with ||"),
        ("n = nil", 'unknown column "nil"', "nil", "no value is null"),
        ("at < now", 'unknown column "now"', "now", "current_timestamp"),
    ],
)
def test_a_habit_is_answered_with_what_to_write(
    text: str, message: str, at: str, hint: str
) -> None:
    with pytest.raises(ExpressionErrors) as raised:
        type_expression(text, SCHEMA)
    (error,) = raised.value.errors
    assert message in error.message
    assert text[error.span.start : error.span.end] == at
    assert (hint in error.hint) if hint else error.hint == ""


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("datediff(day, at)", "int"),
        ("date_add(day, 1)", "date"),
        ("dateadd(day, n)", "date"),
        ("datediff(day, day, at)", "bigint"),
        ("date_add(DAY, 1, at)", "timestamp"),
    ],
)
def test_a_column_named_like_a_unit_is_a_column(text: str, type: str) -> None:
    assert str(type_expression(text, SCHEMA).type) == type


@pytest.mark.parametrize("text", ["current_timestamp", "CURRENT_DATE", "current_date > day"])
def test_the_clock_is_read_without_parentheses(text: str) -> None:
    assert any(isinstance(node, ProcessingTime) for node in walk(type_expression(text, SCHEMA)))


def test_a_column_comes_before_the_clock() -> None:
    schema = Schema((Field("current_date", *parse_type("int")),))
    assert str(type_expression("current_date", schema).type) == "int"


@pytest.mark.parametrize(
    "text",
    ["select", "select * 2", "select is null", "(select)", "distinct = 1", "n-(-n)", "n/ /**/ n"],
)
def test_what_looks_like_a_habit_but_is_spark_stays(text: str) -> None:
    names = ("select", "distinct", "n")
    schema = Schema(tuple(Field(name, *parse_type("int")) for name in names))
    assert type_expression(text, schema)


@pytest.mark.parametrize(
    "text",
    [
        r"s rlike r'\d'",
        r"s rlike '\\d\n\''",
        r"s like '\d'",
        "True",
        's = "text"',
        "len(s) > 0",
        "a = FALSE",
    ],
)
def test_habits_that_spark_shares_work(text: str) -> None:
    assert str(type_expression(text, SCHEMA).type) == "boolean"
