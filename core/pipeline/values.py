"""Readings of scalars: durations, sizes, counts, rates, numbers, choices, names.

Every field of the document has one of these readings. The same object converts the value, and has
the text of the error ("wanted a duration such as 10s"), the JSON schema for editors and the text of
the docs, so that the four cannot differ. A secret is rejected wherever a value is shown, stored or
computed with, which is everywhere except in a connector's own texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, TypeAlias, TypeVar

from headrace.core.pipeline.complaints import wanted, wrong
from headrace.core.pipeline.text import Text
from headrace.core.problems import did_you_mean

Json: TypeAlias = dict[str, Any]
N = TypeVar("N", int, float)

NO_SECRET = "a secret is not allowed here: this value is shown and stored"


class Unfit(Exception):
    """An error: a text is invalid; with a hint, and a description of the valid values."""

    def __init__(self, hint: str = "", wanted: str = "") -> None:
        super().__init__(wanted)
        self.hint = hint
        self.wanted = wanted


class Reading:
    """The conversion of a value of the document to the value of a field; pydantic calls `read`."""

    wanted: str
    json: Json
    part: type | None = None
    """The model that it reads from a mapping, if it does."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        # A plain validator, in the form of pydantic's core schema.
        return {"type": "function-plain", "function": {"type": "no-info", "function": self.read}}

    def read(self, value: object) -> object:
        """Return the value. Raises Unread."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Reads(Reading):
    """The reading of a scalar: `parse` converts its text to a value, or raises Unfit."""

    wanted: str
    parse: Callable[[Text], object] = field(repr=False)
    json: Json = field(default_factory=lambda: {"type": "string"}, repr=False)
    secret: bool = False

    def read(self, value: object) -> object:
        if not isinstance(value, Text):
            raise wanted(value, self.wanted)
        if value.secret and not self.secret:
            raise wrong(value, NO_SECRET)
        try:
            return self.parse(value)
        except Unfit as unfit:
            raise wanted(value, unfit.wanted or self.wanted, unfit.hint) from None


def _some_text(text: Text) -> Text:
    if not text:
        raise Unfit
    return text


UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION = re.compile(r"(\d{1,9})(ms|s|m|h|d)", re.ASCII)
LOOSE_DURATION = re.compile(r"(\d{1,9})\s*([A-Za-z]+)", re.ASCII)
UNIT_WORDS = {
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}


def _duration(text: Text) -> timedelta:
    found = DURATION.fullmatch(text)
    if not found:
        raise Unfit(_duration_hint(text))
    try:
        return timedelta(seconds=int(found[1]) * UNITS[found[2]])
    except OverflowError:
        raise Unfit("the duration is too long") from None


def _duration_hint(text: str) -> str:
    if re.fullmatch(r"\d+", text, re.ASCII):
        return (
            "" if len(text) > 9 else f"add a unit: {text}ms, {text}s, {text}m, {text}h or {text}d"
        )
    loose = LOOSE_DURATION.fullmatch(text.strip())
    unit = UNIT_WORDS.get(loose[2].lower()) if loose else None
    return f'did you mean "{loose[1]}{unit}"?' if loose and unit else "units are ms, s, m, h and d"


SIZES = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
SIZE = re.compile(r"(\d{1,9})(B|KB|MB|GB|TB)", re.ASCII)


def _size(text: Text) -> int:
    found = SIZE.fullmatch(text)
    if found and int(found[1]):
        return int(found[1]) * SIZES[found[2]]
    if re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise Unfit(f"add a unit: {text}KB, {text}MB or {text}GB")
    loose = re.fullmatch(r"([1-9]\d{0,8})\s*([kmgt]?)i?b?", text.strip(), re.A | re.I)
    raise Unfit(f'did you mean "{loose[1]}{loose[2].upper()}B"?' if loose else "")


COUNTS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
COUNT = re.compile(r"(\d{1,18})([kKMG]?)", re.ASCII)
MAX_COUNT = 2**63 - 1


def _count(text: Text) -> int:
    found = COUNT.fullmatch(text)
    number = int(found[1]) * COUNTS[found[2]] if found else 0
    if not 0 < number <= MAX_COUNT:
        raise Unfit
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


def _rate(text: Text) -> Rate:
    count, slash, unit = text.partition("/")
    found = COUNT.fullmatch(count)
    if not found or not int(found[1]) or unit not in ("s", "m", "h"):
        is_count = COUNT.fullmatch(count) is not None
        raise Unfit(f'did you mean "{count}/s"?' if is_count and not slash else "")
    return Rate(int(found[1]) * COUNTS[found[2]], timedelta(seconds=UNITS[unit]))


WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d{1,18}(\.\d{0,18})?|\.\d{1,18})(e[+-]?\d{1,2})?", re.ASCII)


def whole(low: int, high: int | None = None) -> Reads:
    """Return the reading of a whole number in a range, bounds included."""
    return _ranged("a whole number", "integer", WHOLE, int, low, high)


def number(low: float, high: float | None = None) -> Reads:
    """Return the reading of a decimal number in a range, bounds included."""
    return _ranged("a number", "number", NUMBER, float, low, high)


def _ranged(
    what: str, json: str, form: re.Pattern[str], convert: type[N], low: N, high: N | None
) -> Reads:
    def parse(text: Text) -> N:
        if not form.fullmatch(text):
            raise Unfit
        value = convert(text)
        if value < low or (high is not None and value > high):
            raise Unfit
        return value

    if high is None:
        return Reads(f"{what} of at least {low}", parse, {"type": json, "minimum": low})
    schema: Json = {"type": json, "minimum": low, "maximum": high}
    return Reads(f"{what} from {low} to {high}", parse, schema)


def choice(*words: str, later: tuple[str, ...] = ()) -> Reads:
    """Return the reading of one of some words; those of `later` are planned, not built yet."""
    what = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]

    def parse(text: Text) -> str:
        if text in later:
            verb = "are" if len(words) > 1 else "is"
            raise wrong(text, f'"{text}" is not built yet', f"there {verb} {what}")
        if text not in words:
            raise Unfit(did_you_mean(text, words))
        return text.reveal()

    return Reads(what, parse, {"enum": list(words)})


YES = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}


def _flag(text: Text) -> bool:
    if text.lower() not in ("true", "false"):
        near = YES.get(text.lower())
        raise Unfit(f'did you mean "{near}"?' if near else "")
    return text.lower() == "true"


NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
MAX_NAME = 100
LETTERS = "a name has letters (a-z, A-Z), digits, _ and -, and begins with a letter or _"


def _name(text: Text) -> Text:
    if not NAME.fullmatch(text):
        raise Unfit(LETTERS)
    if len(text) > MAX_NAME:
        raise Unfit(f"it has {len(text)}", f"a name of at most {MAX_NAME} characters")
    return text


def _stream(text: Text) -> Text:
    step, dot, output = text.partition(".")
    if not NAME.fullmatch(step) or (dot and not NAME.fullmatch(output)):
        raise Unfit(_stream_hint(text))
    return text


def _stream_hint(text: Text) -> str:
    if "," in text:
        return f"several names are a list: [{text}]"
    if text.startswith("-"):
        return 'the items of a list begin with "- ", with a space'
    return ""


def _column(text: Text) -> Text:
    if not text.strip() or not text.isprintable():
        raise Unfit
    if text.startswith("__") or text == "_delete":
        raise Unfit("names that start with __, and _delete, are reserved")
    return text


WORDS: Json = {"type": "string"}
SCALAR: Json = {"type": ["string", "number", "boolean"]}

duration = Reads(
    "a duration such as 10s", _duration, {"type": "string", "pattern": f"^{DURATION.pattern}$"}
)
size = Reads("a size such as 256MB", _size, {"type": "string", "pattern": f"^{SIZE.pattern}$"})
count = Reads(
    "a count such as 1000 or 1M",
    _count,
    {"type": ["integer", "string"], "minimum": 1, "pattern": f"^{COUNT.pattern}$"},
)
rate = Reads(
    "a rate such as 10000/s", _rate, {"type": "string", "pattern": r"^\d{1,18}[kKMG]?/[smh]$"}
)
name = Reads("a name", _name, {"type": "string", "pattern": f"^{NAME.pattern}$"})
stream = Reads(
    "the name of a source, a step or a step's output (step.output)",
    _stream,
    {"type": "string", "pattern": rf"^{NAME.pattern}(\.{NAME.pattern})?$"},
)
column = Reads("the name of a column", _column)
flag = Reads("true or false", _flag, {"type": "boolean"})
expression = Reads("an expression", _some_text, SCALAR)

Duration = Annotated[timedelta, duration]
Size = Annotated[int, size]
Count = Annotated[int, count]
RowRate = Annotated[Rate, rate]
Flag = Annotated[bool, flag]
Name = Annotated[Text, name]
StreamName = Annotated[Text, stream]
ColumnName = Annotated[Text, column]
Expression = Annotated[Text, expression]
Words = Annotated[Text, Reads("some text", _some_text, SCALAR, secret=True)]
AnyText = Annotated[Text, Reads("a text", lambda text: text, SCALAR, secret=True)]
