"""Functions of CSV texts, each of one record: its values, its schema, and the text of a struct.

Texts without quotes are split in whole columns; others in Python, at about a microsecond each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, function, overload
from headrace.core.expressions.functions.text_schemas import (
    CORRUPT_COLUMN,
    build_failfast_resolver,
    check_corrupt_column,
    drop_not_null,
    parse_schema,
)
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.text_options import TextOptions, read_options
from headrace.core.expressions.typed import NO_SPARK_FORM, ExpressionError, PolarsForm
from headrace.core.types import calendar
from headrace.core.types.data_types import (
    DATE,
    NULL,
    TIMESTAMP,
    Array,
    MapType,
    Struct,
    Type,
)

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.expressions.csv.csv_record import CsvGrammar

_SEPARATORS = {"\\t": "\t", "\\\\": "\\"}


def _read_grammar(options: TextOptions, *, trims: bool, empty: str) -> CsvGrammar:
    from headrace.core.expressions.csv.csv_record import CsvGrammar

    separator = options.get_text("sep", options.get_text("delimiter", ","))
    return CsvGrammar(
        _read_character(options, "sep", _SEPARATORS.get(separator, separator)),
        _read_character(options, "quote", options.get_text("quote", '"') or "\0"),
        _read_character(options, "escape", options.get_text("escape", "\\") or "\0"),
        options.get_flag("ignoreLeadingWhiteSpace", trims),
        options.get_flag("ignoreTrailingWhiteSpace", trims),
        options.get_text("emptyValue", empty),
    )


def _read_character(options: TextOptions, name: str, text: str) -> str:
    if len(text) != 1:
        message = f"{options.function}: {name} is one character, got '{text}'"
        raise ExpressionError(message, options.span)
    return text


def _read_parsers(options: TextOptions) -> dict[Type, PolarsForm]:
    """Return the forms that parse timestamps and dates by the formats of options."""
    forms: dict[Type, PolarsForm] = {}
    if timestamp := options.get_time_format("timestampFormat", parses=True):
        forms[TIMESTAMP] = timestamp
    if date := options.get_time_format("dateFormat", parses=True):
        forms[DATE] = lambda text: calendar.truncate_to_day(date(text))
    return forms


def _parse_schema(bound: BoundArguments) -> Type:
    """Return the struct of the columns that a constant schema names."""
    type, span = parse_schema(bound), bound.arguments[1].span
    if not isinstance(type, Struct):
        message = f"a schema of CSV is of columns, got {type}"
        raise ExpressionError(message, span, "as in 'a int, b string'")
    for each in type.fields:
        if _is_nested(each.type):
            message = f"from_csv cannot read values of type {each.type}"
            raise ExpressionError(message, span, "read a string, and convert it")
    check_corrupt_column("from_csv", bound, type)
    return drop_not_null(type)


def _is_nested(type: Type) -> bool:
    return isinstance(type, Struct | Array | MapType) or type == NULL


def _build_from_csv(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_column

    assert isinstance(bound.result, Struct)
    form = compute_on_column(_build_reader(bound, bound.result), bound.result)
    return lambda text, *_: form(text)


def _build_reader(bound: BoundArguments, type: Struct) -> Callable[[pl.Series], pl.Series]:
    """Return the function that reads texts as structs of this type."""
    from headrace.core.expressions.csv.csv_rows import CsvRowOptions, CsvRows

    options = read_options("from_csv", bound, 2)
    options.is_failfast()
    row_options = CsvRowOptions(
        _read_grammar(options, trims=False, empty=""),
        options.get_text("columnNameOfCorruptRecord", CORRUPT_COLUMN),
        _read_parsers(options),
        options.get_text("nullValue", ""),
        *_read_words(options),
    )
    options.refuse_others()
    return CsvRows(type, row_options).convert


def _read_words(options: TextOptions) -> tuple[str, str, str]:
    """Return the words for NaN and the infinities."""
    return (
        options.get_text("nanValue", "NaN"),
        options.get_text("positiveInf", "Inf"),
        options.get_text("negativeInf", "-Inf"),
    )


def _build_schema_of_csv(bound: BoundArguments) -> PolarsForm:
    import polars as pl

    from headrace.core.expressions.csv.csv_schema import infer_type

    text, span = bound.constants[0], bound.arguments[0].span
    if not isinstance(text, str) or not text:
        actual = "NULL" if text is None else "an empty text"
        raise ExpressionError(f"schema_of_csv wants a record of CSV, got {actual}", span)
    options = read_options("schema_of_csv", bound, 1)
    grammar, times = _read_grammar(options, trims=False, empty=""), _read_parsers(options)
    null_value, words = options.get_text("nullValue", ""), _read_words(options)
    options.refuse_others()
    values = (None if value == null_value else value for value in grammar.split(text) or ())
    types = [infer_type(value, words, times) for value in values]
    fields = ", ".join(f"_c{at}: {str(type).upper()}" for at, type in enumerate(types))
    schema = f"STRUCT<{fields}>"
    return lambda text, *_: pl.lit(schema)


def _build_to_csv(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.csv.csv_text_forms import CsvTextOptions, build_csv_text

    options, type = read_options("to_csv", bound, 1), bound.types[0]
    assert isinstance(type, Struct)
    text_options = CsvTextOptions(
        _read_grammar(options, trims=True, empty='""'),
        options.get_text("nullValue", ""),
        options.get_flag("quoteAll", False),
        options.get_flag("escapeQuotes", True),
        options.get_text_forms(),
    )
    options.refuse_others()
    form = build_csv_text(type, text_options)
    return lambda row, *_: form(row)


_FROM_CSV = overload(
    "from_csv(text: string, schema: constant string, [options: constant map<string, string>]) -> S",
    build=_build_from_csv,
    returns=_parse_schema,
    spark=NO_SPARK_FORM,
)

CSV_TEXTS: tuple[SqlFunction, ...] = (
    function(
        "from_csv",
        "csv",
        "The values of one CSV record as columns of a schema. What does not fit its type, or is not"
        f" there, is NULL; a column {CORRUPT_COLUMN} string in the schema then has the text. With"
        " the option mode FAILFAST the row fails.",
        _FROM_CSV,
        example=("from_csv('1, 0.8', 'a INT, b DOUBLE')", "{1, 0.8}"),
        resolve=build_failfast_resolver(_FROM_CSV, _build_reader, empty_is_bad=True),
        more=(("from_csv('1;\"x;y\"', 'a int, b string', map('sep', ';')).b", "x;y"),),
    ),
    function(
        "to_csv",
        "csv",
        "A struct as one CSV record. Values are in quotes where they need them; spaces around them"
        " are left out.",
        overload(
            "to_csv(row: S, [options: constant map<string, string>]) -> string",
            build=_build_to_csv,
            spark=NO_SPARK_FORM,
        ),
        example=("to_csv(named_struct('a', 1, 'b', 'x,y'))", '1,"x,y"'),
    ),
    function(
        "schema_of_csv",
        "csv",
        "The schema of a CSV record, as `from_csv` takes it.",
        overload(
            "schema_of_csv(text: constant string,"
            " [options: constant map<string, string>]) -> string",
            build=_build_schema_of_csv,
            spark=NO_SPARK_FORM,
        ),
        example=("schema_of_csv('1,abc')", "STRUCT<_c0: INT, _c1: STRING>"),
    ),
)
"""The functions of CSV texts."""
