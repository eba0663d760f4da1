"""The reader of JSON texts: it accepts what Jackson accepts as Spark sets it up.

An object is read as a tuple of (name, value), since names may repeat; an array is a list. What
follows the first value of a text is ignored. A text that is not strict JSON is rewritten as far
as its grammar allows, and read once more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn

from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

MAX_DEPTH: Final = 200
"""Deeper values are not read: Python would need too many nested calls; in Jackson it is 1000."""

MAX_NUMBER: Final = 1000
"""The characters of the longest number, in Jackson as well."""

_LONG_NUMBER = re.compile(rf"[-+.0-9eE]{{{MAX_NUMBER + 1}}}")
SPACES: Final = " \t\r\n"
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_TOKEN = re.compile(
    rf"""(?P<string>{_STRING.pattern})|(?P<comment>/\*.*?\*/|//[^\r\n]*)
    |(?P<sign>-?)(?P<zeros>0+)(?=[0-9])
    |(?P<infinity>\+Infinity\b)|(?P<name>[^\W\d][\w$-]*|[$@\#*][\w$-]*)(?=\s*:)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"""\\.|["']""", re.DOTALL)


class InvalidJson(ValueError):
    """A text that is not JSON, or has a value beyond the limits."""


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidJson(name)


@dataclass(frozen=True, slots=True)
class JsonGrammar:
    """The departures from strict JSON that a reader accepts; the defaults are those of schemas."""

    single_quotes: bool = True
    special_numbers: bool = True
    control_characters: bool = False
    comments: bool = False
    bare_names: bool = False
    leading_zeros: bool = False
    any_escape: bool = False


DEFAULT_GRAMMAR: Final = JsonGrammar()

PATH_GRAMMAR: Final = JsonGrammar(special_numbers=False, control_characters=True)
"""The grammar of the functions that need no schema."""


class JsonReader:
    """A reader of texts of one grammar; `parse_float` makes numbers with a point or an exponent."""

    def __init__(self, grammar: JsonGrammar, parse_float: Callable[[str], object] = float) -> None:
        self._grammar = grammar
        rest = replace(grammar, single_quotes=False, control_characters=False)
        self._rewrites_quotes_only = rest == JsonGrammar(single_quotes=False, special_numbers=False)
        self._decoder = json.JSONDecoder(
            object_pairs_hook=tuple,
            strict=not grammar.control_characters,
            parse_constant=float if grammar.special_numbers else _refuse_constant,
            parse_float=parse_float,
        )

    def read(self, text: str) -> object:
        """Return the first value of the text, or raise InvalidJson."""
        if len(text) > 2 * MAX_DEPTH:
            check_limits(text)
        try:
            return self._read_strict(text)
        except InvalidJson:
            if self._rewrites_quotes_only and "'" not in text:
                raise
            strict = _TOKEN.sub(self._replace_token, text)
            if strict == text:
                raise
        return self._read_strict(strict)

    def _read_strict(self, text: str) -> object:
        start = _SPACE.match(text).end()  # type: ignore[union-attr]
        try:
            value, end = self._decoder.raw_decode(text, start)
        except (ArithmeticError, ValueError) as error:
            raise InvalidJson(str(error)) from None
        if end < len(text) and not isinstance(value, str | tuple | list):
            after = text[end]
            is_number = value is not None and not isinstance(value, bool)
            if after not in " \t\r\n" if is_number else (after.isalnum() or after in "_$"):
                raise InvalidJson(f"{after} after a value")
        return value

    def _replace_token(self, token: re.Match[str]) -> str:
        """Return a token as strict JSON has it, if the grammar has it at all."""
        grammar, text = self._grammar, token[0]
        if token["string"] is not None:
            if text[0] == "'" and not grammar.single_quotes:
                return text
            return f'"{_ESCAPE.sub(self._replace_escape, text[1:-1])}"'
        if token["comment"] is not None and grammar.comments:
            return " "
        if token["zeros"] is not None and grammar.leading_zeros:
            return token["sign"]
        if token["infinity"] is not None and grammar.special_numbers:
            return "Infinity"
        if token["name"] is not None and grammar.bare_names:
            return f'"{text}"'
        return text

    def _replace_escape(self, found: re.Match[str]) -> str:
        text = found[0]
        if text == '"':
            return '\\"'
        if text == "\\'" and self._grammar.single_quotes:
            return "'"
        is_other = text[0] == "\\" and text[1] not in '"\\/bfnrtu'
        return text[1] if is_other and self._grammar.any_escape else text


_path_reader = JsonReader(PATH_GRAMMAR)


def read_json(text: str) -> object:
    """Return the first value of a text, for functions that need no schema, or raise InvalidJson."""
    return _path_reader.read(text)


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


_MANY_DIGITS = "[-+.0-9eE]{40}"
"""A pattern that a number beyond the limit has, and hardly another text."""


def list_beyond_limits(texts: pl.Series) -> frozenset[str]:
    """Return the texts that may be nested too deep or have a number that is too long."""
    sizes = texts.str.len_bytes()
    long = texts.filter((sizes > 2 * MAX_DEPTH).fill_null(False))
    if long.is_empty():
        return frozenset()
    depth = long.str.count_matches("[", literal=True) + long.str.count_matches("{", literal=True)
    digits = (long.str.len_bytes() > MAX_NUMBER) & long.str.contains(_MANY_DIGITS)
    return frozenset(long.filter((depth > MAX_DEPTH) | digits))
