"""Parsing of text by a pattern of Java's DateTimeFormatter, as strictly as Spark.

A pattern becomes one regular expression, which encodes how many digits each field takes and the
range of its numbers, and an expression that converts the captured fields to a timestamp. Text that
does not match is null, and so is a day that its month does not have. Missing fields default to
1970, January, the 1st, midnight.

Java parses from the left and never backtracks; a regular expression does. The two agree where no
text can be split in two ways, so a pattern is refused where one can: a number without a fixed width
before more digits, or a section in brackets that begins like the text after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.batch_forms import compute_on_column
from headrace.core.expressions.java_time.captured_fields import CapturedFields, build_timestamps
from headrace.core.expressions.java_time.field_patterns import (
    DIGITS,
    FieldPattern,
    OptionalPattern,
    PatternItem,
    build_item,
)
from headrace.core.expressions.java_time.pattern import (
    PatternField,
    PatternPart,
    PatternText,
    TimePatternError,
    parse_time_pattern,
)
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import TIMESTAMP

if TYPE_CHECKING:
    import polars as pl


def build_parser(pattern: str, *, local: bool = False) -> PolarsForm:
    """Return the form that parses text to a timestamp; TimePatternError explains why a pattern is
    refused. If `local`, a zone in the text has no effect."""
    parts = parse_time_pattern(pattern)
    items = tuple(map(build_item, parts))
    _check_unambiguous(items, frozenset())
    fields = [piece.field for piece in _flatten(items) if piece.field]
    _check_fields(fields)
    if not any(isinstance(item, FieldPattern) and item.field not in ("", "zone") for item in items):
        raise TimePatternError("a pattern for parsing needs a field outside of brackets")
    regex = f"^{_build_regex(items)}$"
    optional = frozenset(fields) - {item.field for item in items if isinstance(item, FieldPattern)}
    plain, directives = _find_directives(parts)

    def read(text: pl.Series) -> pl.Series:
        if directives and text.str.contains(plain).all():
            read = text.str.to_datetime(directives, strict=False, time_unit="us")
            return read.dt.replace_time_zone("UTC")
        texts = text.str.extract_groups(regex).struct.unnest().to_dict()
        if local:
            texts.pop("zone", None)
        return build_timestamps(CapturedFields(texts, optional))

    return compute_on_column(read, TIMESTAMP)


# Fields of fixed width, which Polars reads several times faster, once their shape is known.
_FAST_FIELDS = {
    **{"yyyy": ("[0-9]{4}", "%Y"), "MM": ("[0-9]{2}", "%m"), "dd": ("[0-9]{2}", "%d")},
    **{"HH": ("[0-9]{2}", "%H"), "mm": ("[0-9]{2}", "%M"), "ss": ("[0-5][0-9]", "%S")},
}


def _find_directives(parts: Sequence[PatternPart]) -> tuple[str, str]:
    """Return the shape of a plain date and time and Polars' directives for it, empty if there are
    none."""
    shape, directives, fields = "", "", set()
    for part in parts:
        match part:
            case PatternText(text):
                shape, directives = shape + re.escape(text), directives + text.replace("%", "%%")
            case PatternField("S", count) if directives.endswith("."):
                shape, directives = f"{shape}[0-9]{{1,{count}}}", f"{directives[:-1]}%.f"
                fields |= {"S", "ss"}
            case PatternField() if str(part) in _FAST_FIELDS:
                regex, directive = _FAST_FIELDS[str(part)]
                shape, directives = shape + regex, directives + directive
                fields.add(str(part))
            case _:
                return "", ""
    time = {"HH", "mm"} if fields & {"HH", "mm", "ss"} else set()
    complete = fields >= {"yyyy", "MM", "dd"} | time and ("S" not in fields or "%S" in directives)
    return (f"^{shape}$", directives) if complete else ("", "")


def _flatten(items: Sequence[PatternItem]) -> Iterator[FieldPattern]:
    for item in items:
        if isinstance(item, FieldPattern):
            yield item
        else:
            yield from _flatten(item.items)


def _build_regex(items: Sequence[PatternItem]) -> str:
    return "".join(
        item.regex if isinstance(item, FieldPattern) else f"(?:{_build_regex(item.items)})?"
        for item in items
    )


# Patterns that would parse a text differently from Java.


def _check_unambiguous(items: Sequence[PatternItem], after: frozenset[str]) -> None:
    greedy = False
    for index, item in enumerate(items):
        following = _first_characters(items[index + 1 :], after)
        if isinstance(item, OptionalPattern):
            starts_itself = item.items and isinstance(item.items[0], FieldPattern)
            if not starts_itself or _first_characters(item.items, frozenset()) & following:
                raise TimePatternError("a section in brackets must not begin like what follows it")
            _check_unambiguous(item.items, following)
            greedy = False
            continue
        greedy = item.digits == "greedy" or (greedy and item.digits == "fixed")
        if greedy and following & DIGITS and not _takes_rest(items, index):
            raise TimePatternError("a number without a fixed width cannot stand before more digits")


def _takes_rest(items: Sequence[PatternItem], index: int) -> bool:
    """Whether a run of digits has a fixed-width field next, so that the number before it takes the
    rest."""
    if index + 1 == len(items):
        return False
    item, following = items[index], items[index + 1]
    parted = isinstance(item, FieldPattern) and item.field not in ("fraction", "zone")
    return parted and isinstance(following, FieldPattern) and following.digits == "fixed"


def _first_characters(items: Sequence[PatternItem], after: frozenset[str]) -> frozenset[str]:
    """Return the characters with which the rest may begin."""
    found: frozenset[str] = frozenset()
    for item in items:
        if isinstance(item, FieldPattern):
            return found | item.first_characters
        found |= _first_characters(item.items, frozenset())
    return found | after


# Fields with the same meaning, each with its letters.
_CONFLICTING_FIELDS = (
    {"year": "yyyy", "short_year": "yy"},
    {"month": "MM", "month_name": "MMM", "day_of_year": "D"},
    {"day": "d", "day_of_year": "D"},
    {"hour": "H", "hour_from_1": "k", "half_hour": "K", "half_hour_from_1": "h"},
    {"half": "a", "hour": "H", "hour_from_1": "k"},
)


def _check_fields(fields: Sequence[str]) -> None:
    for field in fields:
        if fields.count(field) > 1:
            raise TimePatternError(f"the {field.replace('_', ' ')} occurs twice")
    for same in _CONFLICTING_FIELDS:
        letters_of_same = [letters for field, letters in same.items() if field in fields]
        if len(letters_of_same) > 1:
            first, second, *_ = letters_of_same
            raise TimePatternError(f"{first} and {second} cannot be combined")
