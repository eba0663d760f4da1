"""The reader of JSON texts: it accepts what Jackson accepts as Spark sets it up.

An object is read as a tuple of (name, value), since names may repeat; an array is a list. What
follows the first value of a text is ignored. A text that is not strict JSON is written anew with
double quotes, and read once more.
"""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

MAX_DEPTH: Final = 200
"""Deeper values are not read: Python would need too many nested calls; in Jackson it is 1000."""

MAX_NUMBER: Final = 1000
"""The characters of the longest number, in Jackson as well."""

_LONG_NUMBER = re.compile(rf"[-+.0-9eE]{{{MAX_NUMBER + 1}}}")
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_QUOTES = re.compile(r"""\\.|["']""", re.DOTALL)


class InvalidJson(ValueError):
    """A text that is not JSON, or has a value beyond the limits."""


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidJson(name)


_decoder = json.JSONDecoder(object_pairs_hook=tuple, strict=False, parse_constant=_refuse_constant)


def read_json(text: str) -> object:
    """Return the first value of the text, or raise InvalidJson."""
    if len(text) > 2 * MAX_DEPTH:
        check_limits(text)
    try:
        return _read_strict(text)
    except InvalidJson:
        if "'" not in text:
            raise
    return _read_strict(_STRING.sub(_quote_twice, text))


def check_limits(text: str) -> None:
    """Raise InvalidJson if the text is nested too deep or has a number that is too long."""
    if text.count("[") + text.count("{") > MAX_DEPTH:
        depth = 0
        for sign in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
            depth += 1 if sign in "[{" else -1
            if depth > MAX_DEPTH:
                raise InvalidJson("nested too deep")
    if len(text) > MAX_NUMBER and _LONG_NUMBER.search(text):
        for found in _LONG_NUMBER.finditer(_STRING.sub("", text)):
            raise InvalidJson(f"a number of more than {len(found[0]) - 1} digits")


def _read_strict(text: str) -> object:
    start = _SPACE.match(text).end()  # type: ignore[union-attr]
    try:
        value, end = _decoder.scan_once(text, start)
    except (ValueError, StopIteration) as error:
        raise InvalidJson(str(error)) from None
    if end < len(text) and not isinstance(value, str | tuple | list):
        after = text[end]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if after not in " \t\r\n" if is_number else (after.isalnum() or after in "_$"):
            raise InvalidJson(f"{after} after a value")
    return value


def _quote_twice(string: re.Match[str]) -> str:
    """Return a string in double quotes, without escaped single quotes."""
    return f'"{_QUOTES.sub(_escape_quote, string[0][1:-1])}"'


def _escape_quote(found: re.Match[str]) -> str:
    return {"\\'": "'", '"': '\\"'}.get(found[0], found[0])


def count_elements(text: str) -> int | None:
    """Return the number of elements of an array; None if the text is none."""
    try:
        value = read_json(text)
    except InvalidJson:
        return None
    return len(value) if isinstance(value, list) else None


def list_names(text: str) -> list[str] | None:
    """Return the names of the members of an object; None if the text is none."""
    try:
        value = read_json(text)
    except InvalidJson:
        return None
    return [name for name, _ in value] if isinstance(value, tuple) else None
