"""The supported casts: Spark's, without those that have no exact form here, and the hints for the
others.
"""

from __future__ import annotations

from headrace.core.types.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    FLOAT_TYPES,
    INTEGER_DIGITS,
    INTEGER_TYPES,
    INTERVAL_TYPES,
    JAVA_DIGITS,
    MAX_DIGITS,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TIMESTAMP_TYPES,
    Array,
    Decimal,
    Interval,
    MapType,
    Struct,
    Time,
    Type,
    is_integer,
    is_numeric,
)
from headrace.core.types.lazy_dataclass import dataclass

_DIGITS: dict[Type, int] = {BOOLEAN: 1, **{type: n for type, n in INTEGER_DIGITS.items()}}


@dataclass(frozen=True, slots=True)
class CastRefusal:
    """The reason why a type cannot be cast to another, and an alternative."""

    message: str
    hint: str = ""


def find_refusal(source: Type, target: Type, *, try_: bool) -> CastRefusal | None:
    """Return the reason why a cast is not supported, or None where it is."""
    if source in (target, NULL):
        return None
    match source, target:
        case Array(a), Array(b):
            return find_refusal(a, b, try_=try_)
        case MapType(), MapType():
            return _find_map_refusal(source, target, try_=try_)
        case Struct(a), Struct(b) if len(a) == len(b):
            inside = (find_refusal(x.type, y.type, try_=try_) for x, y in zip(a, b, strict=True))
            return next(filter(None, inside), None)
        case Array(element), _ if target == STRING:
            return find_refusal(element, STRING, try_=try_)
        case MapType(key, value), _ if target == STRING:
            return find_refusal(key, STRING, try_=try_) or find_refusal(value, STRING, try_=try_)
        case Struct(fields), _ if target == STRING:
            inside = (find_refusal(field.type, STRING, try_=try_) for field in fields)
            return next(filter(None, inside), None)
    there_is = _is_supported(source, target)
    if there_is and not (try_ and _differs_with_try(source, target)):
        return None
    word = "try_cast" if try_ else "cast"
    return CastRefusal(
        f"there is no {word} from {source} to {target}", _cast_hint(source, target, try_)
    )


def _find_map_refusal(source: MapType, target: MapType, *, try_: bool) -> CastRefusal | None:
    """Return the reason why a map cannot be cast: its keys could be no keys after the cast."""
    if not _has_distinct_results(source.key, target.key):
        message = f"a cast from {source.key} to {target.key} may make null or equal keys of a map"
        return CastRefusal(message, "cast the value that you take out of it: cast(m['key'] as ...)")
    return find_refusal(source.key, target.key, try_=try_) or find_refusal(
        source.value, target.value, try_=try_
    )


def _has_distinct_results(source: Type, target: Type) -> bool:
    """Whether a cast makes distinct values, none of which is null, of distinct values."""
    if source in (target, NULL) or (target == STRING and source != BINARY):
        return True
    if source in INTEGER_TYPES:
        wider = target in INTEGER_TYPES[INTEGER_TYPES.index(source) :]
        return wider or (isinstance(target, Decimal) and not can_be_null(source, target))
    match source, target:
        case Decimal(p, s), Decimal(digits, scale):
            return scale >= s and digits - scale >= p - s
    return (source, target) in ((FLOAT, DOUBLE), (DATE, TIMESTAMP))


def _is_supported(source: Type, target: Type) -> bool:
    """Whether `cast` converts one single value to another."""
    simple = is_numeric(source) or source in (BOOLEAN, STRING, DATE, TIMESTAMP)
    if isinstance(source, Interval) and isinstance(target, Interval):
        return source.is_months == target.is_months
    if isinstance(target, Interval):
        return source == STRING or source in INTEGER_TYPES or isinstance(source, Decimal)
    if isinstance(source, Interval):
        return target == STRING or target in INTEGER_TYPES or isinstance(target, Decimal)
    if isinstance(target, Time):
        return source in (STRING, *TIMESTAMP_TYPES) or isinstance(source, Time)
    if isinstance(source, Time):
        return target == STRING or target in INTEGER_TYPES or isinstance(target, Decimal)
    if source == TIMESTAMP_NTZ:
        return target in (STRING, DATE, TIMESTAMP)
    if target == TIMESTAMP_NTZ:
        return source in (STRING, DATE, TIMESTAMP)
    if target == STRING:
        return simple or source == BINARY
    if is_numeric(target) or target == BOOLEAN:
        return simple and source != DATE
    if target == TIMESTAMP:
        return simple
    if target == DATE:
        return source in (STRING, TIMESTAMP)
    return target == BINARY and (source == STRING or is_integer(source))


def _differs_with_try(source: Type, target: Type) -> bool:
    """Whether `try_cast` refuses what `cast` converts, or converts in a way without a form here."""
    if target == BINARY:
        return source != STRING
    if {source, target} == {BOOLEAN, TIMESTAMP}:
        return True
    return _may_use_double(source, target)


def _may_use_double(source: Type, target: Type) -> bool:
    """Whether Spark may try a wide decimal as an int through a double, on some paths only."""
    narrow = target in INTEGER_TYPES[:3]
    return narrow and isinstance(source, Decimal) and source.precision > 15


def _cast_hint(source: Type, target: Type, try_: bool) -> str:
    if TIMESTAMP_NTZ in (source, target) and (source in _VIA_TIMESTAMP or target in _VIA_TIMESTAMP):
        return f"cast(cast(... as timestamp) as {target})"
    if source == DATE and is_numeric(target):
        return "datediff(..., date '1970-01-01') counts days; unix_timestamp(...) counts seconds"
    if is_numeric(source) and target == DATE:
        return "date_add(date '1970-01-01', ...) takes days; timestamp_seconds(...) takes seconds"
    if isinstance(source, Time) and target in TIMESTAMP_TYPES:
        return "make_timestamp(date, time) adds the day"
    if source == DATE and target == BOOLEAN:
        return "compare it: ... is not null"
    if try_ and _may_use_double(source, target):
        return f"try_cast(try_cast(... as bigint) as {target})"
    if try_ and _is_supported(source, target):
        return "cast does it, and never fails"
    if source in INTERVAL_TYPES or target in INTERVAL_TYPES:
        return "extract(hour from ...) and similar return the parts of an interval"
    if source == BINARY:
        return "a cast to string reads it as UTF-8, and another cast the text"
    return ""


_VIA_TIMESTAMP = (BOOLEAN, *INTEGER_TYPES, *FLOAT_TYPES)


def can_be_null(source: Type, target: Type) -> bool:
    """Whether the cast of a value that is not null may be null."""
    if target == STRING or source == target:
        return False
    if source in TIMESTAMP_TYPES and target in TIMESTAMP_TYPES:
        return False
    if isinstance(source, Interval) and isinstance(target, Interval):
        return False
    if isinstance(target, Time):
        return source == STRING
    if target == BOOLEAN or target in FLOAT_TYPES:
        return source == STRING
    if target in INTEGER_TYPES:
        return source not in (*INTEGER_TYPES, *FLOAT_TYPES, BOOLEAN)
    if isinstance(target, Decimal):
        return target.precision - target.scale < _DIGITS.get(source, MAX_DIGITS + 1)
    return target != BINARY


def is_same_in_spark(source: Type, target: Type) -> bool:
    """Whether Spark casts all values to the same result.

    Spark's job fails at a midnight out of range; it parses times of day
    alone; from bytes it makes texts that are not UTF-8. From doubles it takes the digits
    that Java prints, which depend on its version: those of Java 19 are taken here. From wide
    seconds it takes at most 34 digits.
    """
    match source, target:
        case Array(a), Array(b):
            return is_same_in_spark(a, b)
        case MapType(key, value), MapType(other_key, other_value):
            return is_same_in_spark(key, other_key) and is_same_in_spark(value, other_value)
        case Struct(a), Struct(b):
            pairs = zip(a, b, strict=True)
            return all(is_same_in_spark(x.type, y.type) for x, y in pairs)
        case Array(element), _:
            return is_same_in_spark(element, target)
        case Struct(fields), _:
            return all(is_same_in_spark(field.type, target) for field in fields)
        case MapType(key, value), _:
            return is_same_in_spark(key, target) and is_same_in_spark(value, target)
        case Interval(), _:
            return target == STRING or isinstance(target, Interval)
        case _, Interval():
            return False
        case _, Time():
            return source != STRING
        case _, Decimal():
            return source not in FLOAT_TYPES
        case Decimal(precision), _ if target == TIMESTAMP:
            return precision <= JAVA_DIGITS
    return (source, target) not in _DIFFERENT_IN_SPARK


_DIFFERENT_IN_SPARK = (
    *((source, target) for source in (DATE, STRING) for target in TIMESTAMP_TYPES),
    *((source, STRING) for source in (BINARY, *FLOAT_TYPES)),
)
