"""Declarations of states and timers in a user's class, parsed and validated.

They are built from the class itself when it is loaded, and from its source text when a pipeline is
only validated (`core/pipeline/user_files/process_checks`).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from enum import StrEnum

from headrace.core.errors.problems import suggest_name
from headrace.core.process.value_conversion import ConversionError, build_converter
from headrace.core.types.data_types import TIMESTAMP, Type, is_nested
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.type_parser import TypeTextError, parse_type

MICROSECOND = timedelta(microseconds=1)
TIME_DOMAINS = ("event", "processing")
UNITS_US = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


class Kind(StrEnum):
    """The kinds of state, and timers."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    TIMER = "timer"


@dataclass(frozen=True, slots=True)
class Declared:
    """The declaration of one state or timer of a class."""

    kind: Kind
    types: tuple[Type, ...]
    """The type of the value, of the list's elements, or of the timer; a map has two: the types of
    its keys and of its values."""
    ttl_us: int | None = None
    """The time from a write to the expiry; list elements and map entries expire one by one."""
    processing: bool = False
    """Whether the ttl or the timer goes by the wall clock."""
    default: object = None
    """The value before it is set."""
    shared: bool = False
    """Whether it is broadcast state, common to all keys, which `on_rule` writes."""

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.types))
        shown = "timer" if self.kind is Kind.TIMER else f"{self.kind} of {inner}"
        shown = f"shared {shown}" if self.shared else shown
        clock = " by the wall clock" if self.processing else ""
        if self.ttl_us is None:
            return shown + clock
        return f"{shown}, ttl {_format_duration(self.ttl_us)}{clock}"


def parse_declaration(
    kind: Kind,
    types: tuple[object, ...],
    ttl: object = None,
    time: object = "event",
    default: object = None,
) -> Declared:
    """Parse the arguments of a declaration. Raises TypeError, ValueError if they are invalid."""
    if time not in TIME_DOMAINS:
        raise ValueError(f'time: wanted "event" or "processing", got {time!r}')
    if kind is Kind.TIMER:
        return Declared(kind, (TIMESTAMP,), processing=time == "processing")
    read = tuple(map(_parse_type, types))
    if kind is Kind.MAP and is_nested(read[0]):
        raise ValueError(f"the key of a map is a single value, and not {read[0]}")
    if ttl is None and time == "processing":
        raise ValueError("time applies only together with ttl")
    if default is not None:
        default = _convert_default(default, read[0])
    length = None if ttl is None else _parse_duration(ttl)
    return Declared(kind, read, length, time == "processing", default)


def make_shared(declared: Declared) -> Declared:
    """Return the declaration as broadcast state. Raises ValueError for a timer."""
    if declared.kind is Kind.TIMER:
        raise ValueError("a timer belongs to a key, and cannot be shared")
    return replace(declared, shared=True)


def _format_duration(us: int) -> str:
    """Format a duration in the largest unit that divides it.

    >>> _format_duration(90_000_000)
    '90s'
    """
    unit = next((u for u in reversed(UNITS_US) if us % UNITS_US[u] == 0), "")
    return f"{us // UNITS_US[unit]}{unit}" if unit else f"{us}us"


def _parse_type(word: object) -> Type:
    if not isinstance(word, str):
        raise TypeError(f'wanted a type such as "bigint", got {_format_word(word)}')
    try:
        return parse_type(word)[0]
    except TypeTextError as error:
        raise ValueError(error.message + (f" ({error.hint})" if error.hint else "")) from None


def _convert_default(default: object, type: Type) -> object:
    try:
        return build_converter(type)(default)
    except ConversionError as error:
        raise ValueError(f"default: {error}") from None


def _format_word(word: object) -> str:
    return word.__name__ if isinstance(word, type) else repr(word)


def _parse_duration(word: object) -> int:
    found = word // MICROSECOND if isinstance(word, timedelta) else _parse_duration_text(word)
    if found <= 0:
        raise ValueError(f"ttl: wanted a duration longer than 0s, got {word!r}")
    return found


def _parse_duration_text(word: object) -> int:
    text = word if isinstance(word, str) else ""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(digits) :]
    if not digits.isascii() or not digits.isdigit() or unit not in UNITS_US or len(digits) > 9:
        hint = "" if unit in UNITS_US else suggest_name(unit, tuple(UNITS_US)) if unit else ""
        more = f" ({hint})" if hint else ""
        raise ValueError(f'ttl: wanted a duration such as "10s", got {word!r}{more}')
    return int(digits) * UNITS_US[unit]
