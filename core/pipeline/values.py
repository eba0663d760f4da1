"""Readings of scalars: durations, sizes, counts, rates, numbers, choices, names.

Every field of the document has one of these readings. The same object converts the value, and has
the text of the error ("wanted a duration such as 10s"), the JSON schema for editors and the text of
the docs, so that the four cannot differ. A secret is rejected wherever a value is shown, stored or
computed with, which is everywhere except in a connector's own texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from headrace.core.errors.problems import suggest_name
from headrace.core.pipeline.diagnostics import make_expected_error, make_value_error
from headrace.core.pipeline.text import Text
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

Json: TypeAlias = dict[str, Any]


N = TypeVar("N", int, float)


NO_SECRET_MESSAGE = "a secret is not allowed here: this value is shown and stored"


class InvalidScalar(Exception):
    """An error: a text is invalid; with a hint, and a description of the valid values."""

    def __init__(self, hint: str = "", wanted: str = "") -> None:
        super().__init__(wanted)
        self.hint = hint
        self.wanted = wanted


class FieldReading:
    """The conversion of a value of the document to the value of a field."""

    wanted: str
    json: Json
    part: type | None = None
    """The model that it reads from a mapping, if it does."""

    def read(self, value: object) -> object:
        """Return the value. Raises InvalidValue."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ScalarReading(FieldReading):
    """The reading of a scalar: `parse` converts its text to a value, or raises InvalidScalar."""

    wanted: str
    parse: Callable[[Text], object] = field(repr=False)
    json: Json = field(default_factory=lambda: {"type": "string"}, repr=False)
    allows_secret: bool = False

    def read(self, value: object) -> object:
        if not isinstance(value, Text):
            raise make_expected_error(value, self.wanted)
        if value.secret and not self.allows_secret:
            raise make_value_error(value, NO_SECRET_MESSAGE)
        try:
            return self.parse(value)
        except InvalidScalar as unfit:
            raise make_expected_error(value, unfit.wanted or self.wanted, unfit.hint) from None


def _parse_nonempty_text(text: Text) -> Text:
    if not text:
        raise InvalidScalar
    return text


UNIT_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


DURATION = compile_pattern(r"(\d{1,9})(ms|s|m|h|d)", re.ASCII)


LOOSE_DURATION = compile_pattern(r"(\d{1,9})\s*([A-Za-z]+)", re.ASCII)


UNIT_WORDS = {
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}


def _parse_duration(text: Text) -> timedelta:
    found = DURATION.fullmatch(text)
    if not found:
        raise InvalidScalar(_duration_hint(text))
    try:
        return timedelta(seconds=int(found[1]) * UNIT_SECONDS[found[2]])
    except OverflowError:
        raise InvalidScalar("the duration is too long") from None


def _duration_hint(text: str) -> str:
    if re.fullmatch(r"\d+", text, re.ASCII):
        return (
            "" if len(text) > 9 else f"add a unit: {text}ms, {text}s, {text}m, {text}h or {text}d"
        )
    loose = LOOSE_DURATION.fullmatch(text.strip())
    unit = UNIT_WORDS.get(loose[2].lower()) if loose else None
    return f'did you mean "{loose[1]}{unit}"?' if loose and unit else "units are ms, s, m, h and d"


SIZES = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}


SIZE = compile_pattern(r"(\d{1,9})(B|KB|MB|GB|TB)", re.ASCII)


def _parse_size(text: Text) -> int:
    found = SIZE.fullmatch(text)
    if found and int(found[1]):
        return int(found[1]) * SIZES[found[2]]
    if re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise InvalidScalar(f"add a unit: {text}KB, {text}MB or {text}GB")
    loose = re.fullmatch(r"([1-9]\d{0,8})\s*([kmgt]?)i?b?", text.strip(), re.A | re.I)
    raise InvalidScalar(f'did you mean "{loose[1]}{loose[2].upper()}B"?' if loose else "")


COUNTS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}


COUNT = compile_pattern(r"(\d{1,18})([kKMG]?)", re.ASCII)


MAX_COUNT = 2**63 - 1


def _parse_count(text: Text) -> int:
    found = COUNT.fullmatch(text)
    number = int(found[1]) * COUNTS[found[2]] if found else 0
    if not 0 < number <= MAX_COUNT:
        raise InvalidScalar
    return number


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of rows per unit of time; its text is as in the document."""

    rows: int
    per: timedelta

    @property
    def per_second(self) -> float:
        """Rows per second."""
        return self.rows / self.per.total_seconds()

    def __str__(self) -> str:
        unit = {1: "s", 60: "m", 3600: "h"}[int(self.per.total_seconds())]
        return f"{self.rows}/{unit}"


def _parse_rate(text: Text) -> Rate:
    count, slash, unit = text.partition("/")
    found = COUNT.fullmatch(count)
    if not found or not int(found[1]) or unit not in ("s", "m", "h"):
        is_count = COUNT.fullmatch(count) is not None
        raise InvalidScalar(f'did you mean "{count}/s"?' if is_count and not slash else "")
    return Rate(int(found[1]) * COUNTS[found[2]], timedelta(seconds=UNIT_SECONDS[unit]))


WHOLE = compile_pattern(r"[+-]?\d{1,18}", re.ASCII)


NUMBER = compile_pattern(r"[+-]?(\d{1,18}(\.\d{0,18})?|\.\d{1,18})(e[+-]?\d{1,2})?", re.ASCII)


def whole_number(low: int, high: int | None = None) -> ScalarReading:
    """Return the reading of a whole number in a range, bounds included."""
    return _make_ranged_reading("a whole number", "integer", WHOLE, int, low, high)


def decimal_number(low: float, high: float | None = None) -> ScalarReading:
    """Return the reading of a decimal number in a range, bounds included."""
    return _make_ranged_reading("a number", "number", NUMBER, float, low, high)


def _make_ranged_reading(
    what: str, json: str, form: re.Pattern[str], convert: type[N], low: N, high: N | None
) -> ScalarReading:
    def parse(text: Text) -> N:
        if not form.fullmatch(text):
            raise InvalidScalar
        value = convert(text)
        if value < low or (high is not None and value > high):
            raise InvalidScalar
        return value

    if high is None:
        return ScalarReading(f"{what} of at least {low}", parse, {"type": json, "minimum": low})
    schema: Json = {"type": json, "minimum": low, "maximum": high}
    return ScalarReading(f"{what} from {low} to {high}", parse, schema)


def choice_of(
    *words: str,
    later: tuple[str, ...] = (),
    synonyms: Mapping[str, str] = MappingProxyType({}),
) -> ScalarReading:
    """Return the reading of one of some words.

    Those of `later` are planned, not built yet; `synonyms` are suggested as one of the words.
    """
    what = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]

    def parse(text: Text) -> str:
        if text in later:
            verb = "are" if len(words) > 1 else "is"
            raise make_value_error(text, f'"{text}" is not built yet', f"there {verb} {what}")
        if text not in words:
            word = synonyms.get(text)
            raise InvalidScalar(f'did you mean "{word}"?' if word else suggest_name(text, words))
        return text.reveal()

    return ScalarReading(what, parse, {"enum": list(words)})


BOOLEAN_WORDS = {
    "yes": "true",
    "on": "true",
    "1": "true",
    "no": "false",
    "off": "false",
    "0": "false",
}


def _parse_flag(text: Text) -> bool:
    if text.lower() not in ("true", "false"):
        near = BOOLEAN_WORDS.get(text.lower())
        raise InvalidScalar(f'did you mean "{near}"?' if near else "")
    return text.lower() == "true"


NAME = compile_pattern(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)


MAX_NAME = 100


NAME_HINT = "a name has letters (a-z, A-Z), digits, _ and -, and begins with a letter or _"


def _parse_name(text: Text) -> Text:
    if not NAME.fullmatch(text):
        raise InvalidScalar(NAME_HINT)
    if len(text) > MAX_NAME:
        raise InvalidScalar(f"it has {len(text)}", f"a name of at most {MAX_NAME} characters")
    return text


def _parse_stream(text: Text) -> Text:
    step, dot, output = text.partition(".")
    if not NAME.fullmatch(step) or (dot and not NAME.fullmatch(output)):
        raise InvalidScalar(_suggest_stream(text))
    return text


def _suggest_stream(text: Text) -> str:
    if "," in text:
        return f"several names are a list: [{text}]"
    if text.startswith("-"):
        return 'the items of a list begin with "- ", with a space'
    return ""


def _parse_column(text: Text) -> Text:
    if not text.strip() or not text.isprintable():
        raise InvalidScalar
    if text.startswith("__") or text == "_delete":
        raise InvalidScalar("names that start with __, and _delete, are reserved")
    return text


SCALAR_SCHEMA: Json = {"type": ["string", "number", "boolean"]}


duration = ScalarReading(
    "a duration such as 10s",
    _parse_duration,
    {"type": "string", "pattern": f"^{DURATION.pattern}$"},
)


size = ScalarReading(
    "a size such as 256MB", _parse_size, {"type": "string", "pattern": f"^{SIZE.pattern}$"}
)


count = ScalarReading(
    "a count such as 1000 or 1M",
    _parse_count,
    {"type": ["integer", "string"], "minimum": 1, "pattern": f"^{COUNT.pattern}$"},
)


rate = ScalarReading(
    "a rate such as 10000/s", _parse_rate, {"type": "string", "pattern": r"^\d{1,18}[kKMG]?/[smh]$"}
)


name = ScalarReading("a name", _parse_name, {"type": "string", "pattern": f"^{NAME.pattern}$"})


stream = ScalarReading(
    "the name of a source, a step or a step's output (step.output)",
    _parse_stream,
    {"type": "string", "pattern": rf"^{NAME.pattern}(\.{NAME.pattern})?$"},
)


column = ScalarReading("the name of a column", _parse_column)


flag = ScalarReading("true or false", _parse_flag, {"type": "boolean"})


expression = ScalarReading("an expression", _parse_nonempty_text, SCALAR_SCHEMA)


row_pattern = ScalarReading("a pattern such as a b+ -> c", _parse_nonempty_text, SCALAR_SCHEMA)


Duration = Annotated[timedelta, duration]


Size = Annotated[int, size]


Count = Annotated[int, count]


RowRate = Annotated[Rate, rate]


Flag = Annotated[bool, flag]


Name = Annotated[Text, name]


StreamName = Annotated[Text, stream]


ColumnName = Annotated[Text, column]


Expression = Annotated[Text, expression]


Words = Annotated[
    Text, ScalarReading("some text", _parse_nonempty_text, SCALAR_SCHEMA, allows_secret=True)
]


AnyText = Annotated[
    Text, ScalarReading("a text", lambda text: text, SCALAR_SCHEMA, allows_secret=True)
]


MAX_DURATION = timedelta(days=1_000_000)
"""Longer than any stream, and short enough that an event time moved by it does not overflow."""


def _parse_bounded_duration(text: Text) -> timedelta:
    length = _parse_duration(text)
    if length > MAX_DURATION:
        raise InvalidScalar(wanted=f"a duration of at most {MAX_DURATION.days}d")
    return length


def _check_positive(length: timedelta) -> timedelta:
    if not length:
        raise InvalidScalar(wanted="a duration longer than 0s")
    return length


positive_duration = ScalarReading(
    duration.wanted, lambda text: _check_positive(_parse_duration(text)), duration.json
)
"""A length of time in a setting or a connector's option: it has no upper limit."""


bounded_duration = ScalarReading(duration.wanted, _parse_bounded_duration, duration.json)


nonzero_duration = ScalarReading(
    duration.wanted, lambda text: _check_positive(_parse_bounded_duration(text)), duration.json
)


NonzeroDuration = Annotated[timedelta, nonzero_duration]


BoundedDuration = Annotated[timedelta, bounded_duration]


TimeDomain = Annotated[Literal["event", "processing"], choice_of("event", "processing")]
