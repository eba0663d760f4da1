"""Functions of JSON texts: parts of them by path, lengths, names, schemas, rows.

Each text is decoded by msgspec to what the call needs of it, in some 1 us. A text that is not
strict JSON, or has what Jackson writes in another way, takes some 5 us more, as Python's reader
reads it. Polars reads JSON in columns, but neither as strictly nor as leniently as Jackson does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.expressions.casts import build_cast_form
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
from headrace.core.expressions.typed import Constant, ExpressionError, PolarsForm
from headrace.core.types import calendar
from headrace.core.types.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    FLOAT_TYPES,
    INTEGER_TYPES,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_TYPES,
    Array,
    Decimal,
    Interval,
    MapType,
    Struct,
    Time,
    Type,
)

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.expressions.json.json_reader import JsonGrammar
    from headrace.core.expressions.json.json_rows import JsonRowOptions


def _build_get_json_object(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_column, map_values
    from headrace.core.expressions.json.json_parts import JsonExtractor, extract_json
    from headrace.core.expressions.json.json_path import parse_path

    path = bound.arguments[1]
    if not isinstance(path, Constant):
        return map_values(extract_json, bound.result)
    import polars as pl

    steps = parse_path(path.value) if isinstance(path.value, str) else None
    if steps is None:
        return lambda text, path: pl.lit(None, dtype=pl.String)
    form = compute_on_column(JsonExtractor(steps).extract_all, bound.result)
    return lambda text, path: form(text)


def _build_array_length(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_column
    from headrace.core.expressions.json.json_parts import count_elements

    return compute_on_column(count_elements, bound.result)


def _build_object_keys(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_column
    from headrace.core.expressions.json.json_parts import list_names

    return compute_on_column(list_names, bound.result)


def _read_json_options(bound: BoundArguments) -> JsonRowOptions:
    from headrace.core.expressions.json.json_rows import JsonRowOptions

    options = read_options("from_json", bound, 2)
    timestamp = options.get_time_format("timestampFormat", parses=True)
    date = options.get_time_format("dateFormat", parses=True)
    options.is_failfast()
    times: dict[Type, PolarsForm] = {
        TIMESTAMP: _read_seconds_or(timestamp or build_cast_form(STRING, TIMESTAMP)),
        DATE: (lambda text: calendar.truncate_to_day(date(text))) if date else _read_date,
    }
    corrupt = options.get_text("columnNameOfCorruptRecord", CORRUPT_COLUMN)
    grammar = _read_grammar(options)
    options.refuse_others()
    return JsonRowOptions(grammar, corrupt, times)


def _read_seconds_or(form: PolarsForm) -> PolarsForm:
    """Return the form of texts of which some are numbers of seconds."""
    import polars as pl

    from headrace.core.expressions.json.json_values import NUMBER_MARK

    cast = build_cast_form(STRING, TIMESTAMP)

    def read(text: pl.Expr) -> pl.Expr:
        of_number = cast(text.str.strip_prefix(NUMBER_MARK))
        return pl.when(text.str.starts_with(NUMBER_MARK)).then(of_number).otherwise(form(text))

    return read


def _read_grammar(options: TextOptions) -> JsonGrammar:
    from headrace.core.expressions.json.json_reader import JsonGrammar

    return JsonGrammar(
        single_quotes=options.get_flag("allowSingleQuotes", True),
        special_numbers=options.get_flag("allowNonNumericNumbers", True),
        control_characters=options.get_flag("allowUnquotedControlChars", False),
        comments=options.get_flag("allowComments", False),
        bare_names=options.get_flag("allowUnquotedFieldNames", False),
        leading_zeros=options.get_flag("allowNumericLeadingZeros", False),
        any_escape=options.get_flag("allowBackslashEscapingAnyCharacter", False),
    )


def _parse_schema(bound: BoundArguments) -> Type:
    """Return the type that a constant schema names: columns as in 'a int, b string', or a type."""
    type, span = parse_schema(bound), bound.arguments[1].span
    if not isinstance(type, Struct | Array | MapType):
        message = f"a schema is of columns, a struct, an array or a map, got {type}"
        raise ExpressionError(message, span, f"as in 'a {type}'")
    if refused := _find_unreadable(type):
        message = f"from_json cannot read values of type {refused}"
        raise ExpressionError(message, span, _describe_instead(refused))
    check_corrupt_column("from_json", bound, type)
    return drop_not_null(type)


_READABLE = (*INTEGER_TYPES, *FLOAT_TYPES, BOOLEAN, STRING, BINARY, DATE, *TIMESTAMP_TYPES)


def _find_unreadable(type: Type) -> Type | None:
    """Return a type within that no text is read as."""
    match type:
        case Struct(fields):
            return next(filter(None, (_find_unreadable(each.type) for each in fields)), None)
        case Array(element):
            return _find_unreadable(element)
        case MapType(key, value):
            return _find_unreadable(value) if key == STRING else type
    return None if type in _READABLE or isinstance(type, Decimal | Time | Interval) else type


def _describe_instead(type: Type) -> str:
    if isinstance(type, MapType):
        return f"the keys of JSON are texts: map<string,{type.value}>"
    return f"read a string, and cast(... as {type})"


def _build_from_json(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_column

    assert isinstance(bound.result, Struct | Array | MapType)
    form = compute_on_column(_build_reader(bound, bound.result), bound.result)
    return lambda text, *_: form(text)


def _build_reader(
    bound: BoundArguments, type: Struct | Array | MapType
) -> Callable[[pl.Series], pl.Series]:
    """Return the function that reads texts as values of this type."""
    from headrace.core.expressions.json.json_rows import JsonRows

    return JsonRows(type, _read_json_options(bound)).convert


def _read_date(text: pl.Expr) -> pl.Expr:
    """Read a date as a cast does; a text that is no date may be a number of days."""
    import polars as pl

    days = text.str.extract(r"^([+-]?[0-9]+)$").str.strip_prefix("+")
    return pl.coalesce(
        build_cast_form(STRING, DATE)(text), days.cast(pl.Int32, strict=False).cast(pl.Date)
    )


def _build_schema_of_json(bound: BoundArguments) -> PolarsForm:
    from dataclasses import replace
    from decimal import Decimal, DecimalException

    import polars as pl

    from headrace.core.expressions.json.json_reader import InvalidJson, JsonReader
    from headrace.core.expressions.json.json_schema import (
        convert_to_text,
        format_inferred,
        infer_type,
    )

    text, span = bound.constants[0], bound.arguments[0].span
    assert isinstance(text, str)
    options = read_options("schema_of_json", bound, 1)
    grammar = _read_grammar(options)
    as_text = options.get_flag("primitivesAsString", False)
    drops_nulls = options.get_flag("dropFieldIfAllNull", False)
    as_decimal = options.get_flag("prefersDecimal", False) and not as_text
    options.refuse_others()
    reader = JsonReader(grammar)
    if as_decimal:
        # Spark refuses NaN and infinities here: no decimal is one.
        reader = JsonReader(replace(grammar, special_numbers=False), parse_float=Decimal)
    try:
        type = infer_type(reader.read(text) if text.strip() else None)
    except InvalidJson:
        raise ExpressionError("schema_of_json wants a JSON text", span) from None
    except (ValueError, DecimalException) as error:
        message = f"schema_of_json: with prefersDecimal, {error}"
        raise ExpressionError(message, span, "leave the option out") from None
    type = convert_to_text(type) if as_text else type
    schema = format_inferred(type, drops_nulls=drops_nulls)
    return lambda text, *_: pl.lit(schema)


def _refuse_null(bound: BoundArguments) -> None:
    if bound.constants[0] is None:
        raise ExpressionError("schema_of_json wants a JSON text, got NULL", bound.arguments[0].span)


def _check_writable(bound: BoundArguments) -> None:
    if found := _find_unwritable(bound.types[0]):
        hint = "cast(... as string) makes a text of it"
        message = f"to_json has no text for {found}"
        raise ExpressionError(message, bound.arguments[0].span, hint)


def _find_unwritable(type: Type) -> Type | None:
    """Return a type within that is not written."""
    match type:
        case Struct(fields):
            return next(filter(None, (_find_unwritable(each.type) for each in fields)), None)
        case Array(element):
            return _find_unwritable(element)
        case MapType(key, value):
            return _find_unwritable_key(key) or _find_unwritable(value)
    return (
        None if type in (*_READABLE, NULL) or isinstance(type, Decimal | Time | Interval) else type
    )


def _find_unwritable_key(type: Type) -> Type | None:
    """Return a type within a key that is not written: Spark writes no values of an array there."""
    if isinstance(type, Struct):
        return next(filter(None, (_find_unwritable_key(each.type) for each in type.fields)), None)
    return type if isinstance(type, Array) else _find_unwritable(type)


def _build_to_json(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.json.json_text_forms import JsonTextOptions, build_json_text

    options = read_options("to_json", bound, 1)
    times = options.get_text_forms()
    has_nulls = not options.get_flag("ignoreNullFields", True)
    sorts_keys = options.get_flag("sortKeys", False)
    options.refuse_others()
    form = build_json_text(bound.types[0], JsonTextOptions(has_nulls, times, sorts_keys))
    return lambda value, *_: form(value)


_FROM_JSON = overload(
    "from_json(text: string, schema: constant string,"
    " [options: constant map<string, string>]) -> S",
    build=_build_from_json,
    returns=_parse_schema,
)

JSON_TEXTS: tuple[SqlFunction, ...] = (
    function(
        *(
            "get_json_object",
            "json",
            "What a path finds in a JSON text, as text; NULL if that is nothing, or the text is"
            " not JSON. A path is $ and steps: .name, ['name'], [0], or [*] for all elements.",
        ),
        overload(
            "get_json_object(text: string, path: string) -> string", build=_build_get_json_object
        ),
        example=("get_json_object('{\"a\":{\"b\":[1, 2.50]}}', '$.a.b[1]')", "2.5"),
        more=(('get_json_object(\'[{"a":"b"},{"a":"c"}]\', \'$[*].a\')', '["b","c"]'),),
    ),
    function(
        *(
            "json_array_length",
            "json",
            "The number of elements of a JSON array; NULL if the text is not one.",
        ),
        overload("json_array_length(text: string) -> int", build=_build_array_length),
        example=('json_array_length(\'[1,2,3,{"f1":1,"f2":[5,6]},4]\')', "5"),
    ),
    function(
        *(
            "json_object_keys",
            "json",
            "The names of the members of a JSON object; NULL if the text is not one.",
        ),
        overload("json_object_keys(text: string) -> array<string>", build=_build_object_keys),
        example=('json_object_keys(\'{"f1":"abc","f2":{"f3":"a"}}\')', "[f1, f2]"),
    ),
    function(
        *(
            "from_json",
            "json",
            "The values of a JSON text as columns of a schema: a struct, or an array. What does"
            " not fit its type is NULL. If the text is not JSON, all columns are NULL; a column"
            f" {CORRUPT_COLUMN} string in the schema then has the text. With the option mode"
            " FAILFAST the row fails.",
        ),
        _FROM_JSON,
        example=("from_json('{\"a\":1, \"b\":0.8}', 'a INT, b DOUBLE')", "{1, 0.8}"),
        resolve=build_failfast_resolver(_FROM_JSON, _build_reader),
        more=(("from_json('[1, 2]', 'array<int>')", "[1, 2]"),),
    ),
    function(
        *(
            "to_json",
            "json",
            "A struct, an array or a map as JSON. Fields that are NULL are left out, unless the"
            " option ignoreNullFields is false.",
        ),
        *(
            overload(
                f"to_json({parameter}, [options: constant map<string, string>]) -> string",
                build=_build_to_json,
                check=_check_writable,
                nulls="strict",
            )
            for parameter in ("row: S", "list: array<T>", "map: map<K, V>")
        ),
        example=("to_json(named_struct('a', 1, 'b', array('x', null)))", '{"a":1,"b":["x",null]}'),
    ),
    function(
        *(
            "schema_of_json",
            "json",
            "The schema of a JSON text, as `from_json` takes it.",
        ),
        overload(
            "schema_of_json(text: constant string, [options: constant map<string, string>])"
            " -> string",
            build=_build_schema_of_json,
            check=_refuse_null,
            nulls="never",
        ),
        example=("schema_of_json('[{\"col\":0}]')", "ARRAY<STRUCT<col: BIGINT>>"),
    ),
)
"""The functions of JSON texts."""
