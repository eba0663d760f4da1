"""Type texts: accepted, refused, and the position of the error."""

import pytest

from headrace.core.types.data_types import ATOMS, INTERVAL_TYPES, NULL
from headrace.core.types.type_parser import MAX_DEPTH, TypeTextError, parse_type


@pytest.mark.parametrize(
    ("text", "type", "nullable"),
    [
        ("bigint", "bigint", True),
        ("BigInt NOT NULL", "bigint", False),
        ("  int\n not  null ", "int", False),
        ("long", "bigint", True),
        ("integer", "int", True),
        ("short", "smallint", True),
        ("byte", "tinyint", True),
        ("real", "float", True),
        ("timestamp_ltz", "timestamp", True),
        ("decimal", "decimal(10,0)", True),
        ("dec(5)", "decimal(5,0)", True),
        ("numeric( 38 , 38 )", "decimal(38,38)", True),
        ("array<array<string>>", "array<array<string>>", True),
        ("map<long, array<string>>", "map<bigint,array<string>>", True),
        ("Map<string,map<date, int>> not null", "map<string,map<date,int>>", False),
        ("struct<a int, b: string not null>", "struct<a:int,b:string not null>", True),
        ("struct<`a b`: int, `x``y`: int, int: int>", "struct<`a b`:int,`x``y`:int,int:int>", True),
        ("array<struct<a: decimal(10,2)>> not null", "array<struct<a:decimal(10,2)>>", False),
    ],
)
def test_a_type_is_read(text: str, type: str, nullable: bool) -> None:
    read, may_be_null = parse_type(text)
    assert (str(read), may_be_null) == (type, nullable)


@pytest.mark.parametrize(
    "atom", [a for a in ATOMS.values() if a not in (*INTERVAL_TYPES, NULL)], ids=str
)
def test_a_type_is_read_from_how_it_prints(atom: object) -> None:
    assert parse_type(str(atom))[0] == atom


@pytest.mark.parametrize(
    ("text", "message", "part", "hint"),
    [
        ("integr", 'unknown type "integr"', "integr", 'did you mean "integer"?'),
        ("text", 'unknown type "text"', "text", 'did you mean "string"?'),
        ("varchar(10)", 'unknown type "varchar"', "varchar(10)", 'did you mean "string"?'),
        ("datetime", 'unknown type "datetime"', "datetime", 'did you mean "timestamp"?'),
        ("bool", 'unknown type "bool"', "bool", 'did you mean "boolean"?'),
        ("array<int64>", 'unknown type "int64"', "int64", 'did you mean "bigint"?'),
        ("variant", 'the type "variant" is not built yet', "variant", ""),
        ("dict", 'unknown type "dict"', "dict", 'did you mean "map<...>"?'),
        ("map", 'wanted "<", got the end', "", "as in: map<string, bigint>"),
        ("map<string>", 'wanted ",", got ">"', ">", "as in: map<string, bigint>"),
        ("map<string, int not null>", 'the values of a map cannot be "not null"', "not", ""),
        ("map<int not null, int>", "the keys of a map are never null: leave it out", "not", ""),
        (
            "map<array<int>, int>",
            "the key of a map is a single value, and not array<int>",
            "array",
            "array<struct<key: array<int>, value: ...>> holds such entries",
        ),
        ("void", 'no column has the type "void"', "void", ""),
        ("decimal(39)", 'wanted a precision from 1 to 38, got "39"', "39", ""),
        ("decimal(5,6)", 'wanted a scale from 0 to 5, got "6"', "6", ""),
        ("decimal(5,)", 'wanted a scale from 0 to 5, got ")"', ")", ""),
        ("decimal(5", 'wanted ")", got the end', "", ""),
        ("array", 'wanted "<", got the end', "", "as in: array<bigint>"),
        ("array<int not null>", 'the elements of an array cannot be "not null"', "not", ""),
        ("struct<>", 'wanted the name of a field, got ">"', ">", ""),
        ("struct<a: int, a: int>", 'the struct has two fields "a"', "a", ""),
        ("int nul", 'wanted "not null" or the end of the type, got "nul"', "nul", ""),
        ("int not nul", 'wanted "null", got "nul"', "nul", ""),
        ("[int]", 'wanted a type such as bigint or array<string>, got "["', "[", ""),
    ],
)
def test_a_wrong_type_is_pointed_at(text: str, message: str, part: str, hint: str) -> None:
    with pytest.raises(TypeTextError) as caught:
        parse_type(text)
    error = caught.value
    assert (error.message, text[error.start : error.end], error.hint) == (message, part, hint)


def test_types_nested_too_deep_are_refused() -> None:
    assert parse_type("array<" * MAX_DEPTH + "int" + ">" * MAX_DEPTH)
    with pytest.raises(TypeTextError, match="nested at most"):
        parse_type("array<" * 100_000)
