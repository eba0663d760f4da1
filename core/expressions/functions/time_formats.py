"""Dates and timestamps as text: parsed and formatted by patterns of Java's letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.function import Overload, SqlFunction, TypedCall, function, overload
from headrace.core.expressions.functions.arguments import (
    build_by_text,
    fit_time_zone,
    literal_text,
)
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    AS_WRITTEN,
    NO_SPARK_FORM,
    ExpressionError,
    FunctionCall,
    PolarsForm,
    ProcessingTime,
    TypedExpression,
)
from headrace.core.types import calendar
from headrace.core.types.data_types import BIGINT, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, Type

if TYPE_CHECKING:
    import polars as pl

FAMILY = "times"
DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"
"""The default pattern of `unix_timestamp` and `from_unixtime`."""


def make_parser(pattern: str, *, local: bool = False) -> PolarsForm | None:
    """Return the form that parses a text, None if the pattern is invalid.

    If `local`, a zone in the text has no effect.
    """
    from headrace.core.expressions.java_time.pattern import TimePatternError
    from headrace.core.expressions.java_time.time_parser import build_parser

    try:
        return build_parser(pattern, local=local)
    except TimePatternError:
        return None


def _make_ntz_parser(pattern: str) -> PolarsForm | None:
    form = make_parser(pattern, local=True)
    return form and fit_time_zone(form, TIMESTAMP_NTZ)


def _make_date_parser(pattern: str) -> PolarsForm | None:
    form = make_parser(pattern)
    return form and (lambda text: calendar.truncate_to_day(form(text)))


def _make_seconds_parser(pattern: str) -> PolarsForm | None:
    form = make_parser(pattern)
    return form and (lambda text: _to_seconds(form(text)))


def _make_formatter(pattern: str) -> PolarsForm | None:
    from headrace.core.expressions.java_time.pattern import TimePatternError
    from headrace.core.expressions.java_time.time_formatter import build_formatter

    try:
        return build_formatter(pattern)
    except TimePatternError:
        return None


_CLOCK_LETTERS = frozenset("HhKkmsSa")


def _formats_clock(pattern: str) -> bool:
    """Whether a pattern has only fields of the time of day."""
    from headrace.core.expressions.java_time.pattern import PatternField, parse_time_pattern

    parts = parse_time_pattern(pattern)
    fields = [part for part in parts if isinstance(part, PatternField)]
    return all(field.letter in _CLOCK_LETTERS for field in fields)


def _make_clock_formatter(pattern: str) -> PolarsForm | None:
    form = _make_formatter(pattern)
    if form is None or not _formats_clock(pattern):
        return None
    return lambda time: form(calendar.to_timestamp(time.to_physical() // 1000))


def _check_clock_formatter(bound: BoundArguments) -> None:
    _check_formatter(bound)
    pattern = literal_text(bound.arguments[1])
    if pattern is not None and not _formats_clock(pattern):
        message = f"'{pattern}' has a field that a time of day lacks"
        raise ExpressionError(message, bound.arguments[1].span, "as in 'HH:mm:ss'")


def _make_seconds_formatter(pattern: str) -> PolarsForm | None:
    """Return the form; the seconds wrap around where their microseconds do not fit, as in Spark."""
    form = _make_formatter(pattern)
    return form and (lambda seconds: form(calendar.to_timestamp(seconds * calendar.SECOND_US)))


def check_parser(bound: BoundArguments) -> None:
    """Refuse a literal that is no pattern for parsing."""
    from headrace.core.expressions.java_time.time_parser import build_parser

    _check_pattern(bound, build_parser)


def _check_formatter(bound: BoundArguments) -> None:
    from headrace.core.expressions.java_time.time_formatter import build_formatter

    _check_pattern(bound, build_formatter)


def _check_pattern(bound: BoundArguments, build: Callable[[str], PolarsForm]) -> None:
    """Refuse a literal that is no pattern."""
    from headrace.core.expressions.java_time.pattern import TimePatternError

    pattern = literal_text(bound.arguments[1]) if len(bound.arguments) > 1 else None
    try:
        build(DEFAULT_PATTERN if pattern is None else pattern)
    except TimePatternError as error:
        hint = f"a pattern is written as {DEFAULT_PATTERN}"
        raise ExpressionError(str(error), bound.arguments[1].span, hint) from None


def _build_by_pattern(
    make: Callable[[str], PolarsForm | None],
) -> Callable[[BoundArguments], PolarsForm]:
    """Return the builder of a form by the pattern that is the second argument, if it is given."""

    def build(bound: BoundArguments) -> PolarsForm:
        if len(bound.arguments) > 1:
            return build_by_text(1, make)(bound)
        form = make(DEFAULT_PATTERN)
        assert form, "the default is a pattern"
        return form

    return build


def _spark_form_of_pattern(bound: BoundArguments) -> str:
    """Return the Spark form: Spark fails at a pattern of a column that is invalid."""
    fixed = len(bound.arguments) < 2 or literal_text(bound.arguments[1]) is not None
    return AS_WRITTEN if fixed else NO_SPARK_FORM


def _to_seconds(time: pl.Expr) -> pl.Expr:
    """Return whole seconds, truncated: half a second before 1970 is 0, unlike in `unix_seconds`."""
    return calendar.to_micros(time).truncdiv(calendar.SECOND_US)


def allow_cast(row: SqlFunction, target: Type) -> SqlFunction:
    """Make a call with one argument a cast; a boolean is refused, as no function returns a time
    from it."""

    def resolve(call: TypedCall) -> TypedExpression:
        if len(call.arguments) != 1:
            return row.resolve(call)
        (value,) = call.arguments
        if value.type == BOOLEAN:
            message = f"{call.name} wants text, a date or a timestamp, got boolean"
            raise ExpressionError(message, value.span)
        return build_cast(value, target, call.span)

    return replace(row, resolve_own=resolve)


def _allow_clock(row: SqlFunction) -> SqlFunction:
    """Make a call without arguments return the processing time."""

    def resolve(call: TypedCall) -> TypedExpression:
        if call.arguments or call.name != row.name:
            return row.resolve(call)
        now = ProcessingTime(TIMESTAMP, False, call.span)
        return FunctionCall(BIGINT, False, call.span, call.name, (now,), _to_seconds)

    return replace(
        row, resolve_own=resolve, signatures=("unix_timestamp() -> bigint", *row.signatures)
    )


def _define_timestamp_overload(
    name: str, result: str, form: PolarsForm, time: str = "timestamp"
) -> Overload:
    """Define the overload for a timestamp, where the pattern is ignored."""
    optional = "[pattern: string]" if result == "bigint" else "pattern: string"
    return overload(
        f"{name}(time: {time}, {optional}) -> {result}",
        lambda time, _=None: form(time),
        nulls="strict",
    )


TIME_FORMATS: tuple[SqlFunction, ...] = (
    allow_cast(
        function(
            "to_timestamp",
            FAMILY,
            "The timestamp of a text, parsed like cast(... as timestamp) or by a pattern of Java's"
            " letters; NULL if the text is not a timestamp.",
            overload(
                "to_timestamp(text: exact string, pattern: string) -> timestamp",
                build=_build_by_pattern(make_parser),
                check=check_parser,
                spark=NO_SPARK_FORM,
            ),
            _define_timestamp_overload("to_timestamp", "timestamp", lambda time: time),
            example=("to_timestamp('6/5/2024 7:08', 'd/M/yyyy H:mm')", "2024-05-06 07:08:00"),
            more=(("to_timestamp('2024-05-06T07:08:09Z')", "2024-05-06 07:08:09"),),
            aliases=("try_to_timestamp", "to_timestamp_ltz"),
        ),
        TIMESTAMP,
    ),
    allow_cast(
        function(
            "to_timestamp_ntz",
            FAMILY,
            "The timestamp without a time zone of a text, parsed like cast(... as timestamp_ntz) or"
            " by a pattern of Java's letters; NULL if the text is not a timestamp.",
            overload(
                "to_timestamp_ntz(text: string, pattern: string) -> timestamp_ntz",
                build=_build_by_pattern(_make_ntz_parser),
                check=check_parser,
                spark=NO_SPARK_FORM,
            ),
            _define_timestamp_overload(
                "to_timestamp_ntz", "timestamp_ntz", lambda time: time, "timestamp_ntz"
            ),
            example=("to_timestamp_ntz('6/5/2024 7:08', 'd/M/yyyy H:mm')", "2024-05-06 07:08:00"),
        ),
        TIMESTAMP_NTZ,
    ),
    allow_cast(
        function(
            "to_date",
            "dates",
            "The date of a text, parsed like cast(... as date) or by a pattern of Java's letters;"
            " NULL if the text is not a date. Of a timestamp, its day.",
            overload(
                "to_date(text: string, pattern: string) -> date",
                build=_build_by_pattern(_make_date_parser),
                check=check_parser,
                spark=NO_SPARK_FORM,
            ),
            _define_timestamp_overload("to_date", "date", calendar.truncate_to_day),
            example=("to_date('6 May 2024', 'd MMM yyyy')", "2024-05-06"),
            more=(("to_date('2024-05-06')", "2024-05-06"),),
            aliases=("try_to_date",),
        ),
        DATE,
    ),
    function(
        "date_format",
        FAMILY,
        "The time formatted by a pattern of Java's letters, such as 'yyyy-MM-dd HH:mm:ss'.",
        overload(
            "date_format(time: timestamp, pattern: string) -> string",
            build=_build_by_pattern(_make_formatter),
            check=_check_formatter,
            spark=_spark_form_of_pattern,
            nulls="strict",
        ),
        overload(
            "date_format(time: P, pattern: string) -> string",
            build=build_by_text(1, _make_clock_formatter),
            check=_check_clock_formatter,
            spark=NO_SPARK_FORM,
        ),
        example=(
            "date_format(timestamp '2024-05-06 17:08:09', 'EEE d MMM, h:mm a')",
            "Mon 6 May, 5:08 PM",
        ),
    ),
    _allow_clock(
        function(
            "unix_timestamp",
            FAMILY,
            "The whole seconds since 1970 of a time, or of a text parsed by a pattern; NULL if the"
            " text is not a time. Without arguments, of the processing time, which differs between"
            " runs.",
            overload(
                "unix_timestamp(text: exact string, [pattern: string]) -> bigint",
                build=_build_by_pattern(_make_seconds_parser),
                check=check_parser,
                spark=NO_SPARK_FORM,
            ),
            _define_timestamp_overload("unix_timestamp", "bigint", _to_seconds),
            example=("unix_timestamp('2024-05-06 07:08:09')", "1714979289"),
            more=(("unix_timestamp('6.5.24', 'd.M.yy')", "1714953600"),),
            aliases=("to_unix_timestamp",),
        )
    ),
    function(
        "from_unixtime",
        FAMILY,
        "The time this many seconds after 1970-01-01 00:00:00, formatted by a pattern of Java's"
        " letters.",
        overload(
            "from_unixtime(seconds: bigint, [pattern: string]) -> string",
            build=_build_by_pattern(_make_seconds_formatter),
            check=_check_formatter,
            spark=_spark_form_of_pattern,
            nulls="strict",
        ),
        example=("from_unixtime(1714979289)", "2024-05-06 07:08:09"),
    ),
)
"""The functions between text and dates or timestamps."""
