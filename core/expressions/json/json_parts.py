"""Parts of many JSON texts, cut out by msgspec as they are written.

A text that is not strict JSON, or may have a name twice, is left to the exact reader; so is a part
that Jackson writes in another way than it is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
import orjson
import polars as pl

from headrace.core.expressions.json.json_path import (
    PathWildcard,
    Step,
    evaluate_path,
    parse_path,
)
from headrace.core.expressions.json.json_reader import (
    SPACES,
    InvalidJson,
    list_beyond_limits,
    read_json,
)
from headrace.core.expressions.json.json_records import build_column
from headrace.core.expressions.json.json_writer import format_float
from headrace.core.types.data_types import STRING, Array

_UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError)
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode

_SLICE = 4096
"""The rows that exist as Python objects at a time: more make its garbage collector slow."""

_SCALAR = str | int | float | bool | None
_Stage: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any], Any], int | None]
"""A decoder, the getter of the value within what it decodes, and an index in that value."""


class JsonExtractor:
    """The text of what a path finds in each of many JSON texts.

    Values without parts are decoded; from the first array or object on, all are cut out as written.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)
        self._of_elements = self._steps[-1:] == (PathWildcard.ELEMENTS,)
        singles = self._steps[:-1] if self._of_elements else self._steps
        self._of_member = bool(singles) and isinstance(singles[-1], str)
        self._marks = [_quote(step) for step in singles if isinstance(step, str)]
        # Behind an index, all elements are written in brackets.
        is_known = not self._of_elements or not singles or self._of_member
        is_plain = not any(isinstance(step, PathWildcard) for step in singles)
        self._is_fast = is_known and is_plain and all(map(_is_plain, self._marks))
        self._raw = _compile_stages(singles, msgspec.Raw) if self._is_fast else ()
        is_scalar = self._is_fast and self._of_member and not self._of_elements
        self._scalar = _compile_stages(singles, _SCALAR) if is_scalar else self._raw
        self._stages = self._scalar
        self._start = "" if not singles else "{" if isinstance(singles[0], str) else "["

    def extract_all(self, texts: pl.Series) -> pl.Series:
        """Return what is found in each text; null where nothing is, or the text is not JSON."""
        self._stages = self._scalar
        if PathWildcard.MEMBERS in self._steps:
            found: list[str | None] = [None] * len(texts)
        elif not self._is_fast:
            found = [None if text is None else self._evaluate(text) for text in texts.to_list()]
        else:
            extract, clear = self._extract, self._find_clear(texts)
            found = [
                extract(text) if is_clear else None if text is None else self._evaluate(text)
                for text, is_clear in zip(texts.to_list(), clear.to_list(), strict=True)
            ]
        return pl.Series(texts.name, found, dtype=pl.String)

    def _find_clear(self, texts: pl.Series) -> pl.Series:
        """Return where a text is within limits and has no name of the path twice."""
        text = pl.col(texts.name)
        once = [text.str.count_matches(mark, literal=True) <= 1 for mark in self._marks]
        clear = (
            texts.to_frame()
            .select(pl.all_horizontal(~text.str.contains("\\u00", literal=True), *once))
            .to_series()
        )
        beyond = list_beyond_limits(texts)
        return clear & ~texts.is_in([*beyond]) if beyond else clear

    def _evaluate(self, text: str) -> str | None:
        return evaluate_path(text, self._steps)

    def _extract(self, text: str) -> str | None:
        start = self._start
        if start and text[:1] != start and text.lstrip(SPACES)[:1] != start:
            return None
        try:
            part = self._find(text)
            if part is None or part.__class__ is str:
                return part
            if self._of_elements:
                return _write_elements(part)
            found = _write_plainly(part)
            return "null" if found is None and not self._of_member else found
        except msgspec.ValidationError:
            return self._extract_raw(text)
        except _UNDECODABLE:
            return self._evaluate(text)

    def _extract_raw(self, text: str) -> str | None:
        """Return what is found in a text in which a value is of another kind than expected."""
        if self._stages is self._scalar is not self._raw:
            self._stages = self._raw
            return self._extract(text)
        # A value is not of the kind that the next step needs.
        return self._evaluate(text) if "'" in text else None

    def _find(self, text: str) -> Any:
        value: Any = text
        for decode, get, index in self._stages:
            value = get(decode(value))
            if index is not None:
                if value is None or len(value) <= index:
                    return None
                value = value[index]
        return value


def _compile_stages(steps: Sequence[Step], last: Any) -> tuple[_Stage, ...]:
    """Return a stage for each index of a path, and one for the names after the last."""
    stages: list[_Stage] = []
    names: list[str] = []
    for step in steps:
        if isinstance(step, str):
            names.append(step)
        else:
            assert isinstance(step, int)
            stages.append((*_build_decoder(names, list[msgspec.Raw]), step))
            names = []
    if names or not stages:
        stages.append((*_build_decoder(names, last), None))
    return tuple(stages)


def _build_decoder(
    names: Sequence[str], type: Any
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the decoder of a value within members of these names, and the getter of the value."""
    default: Any = None
    for name in reversed(names):
        field = ("value", type, default)
        type = msgspec.defstruct("JsonPart", [field], rename={"value": name}, gc=False)
        default = msgspec.field(default_factory=type)
    get = attrgetter(".".join(["value"] * len(names))) if names else _get_itself
    return msgspec.json.Decoder(type).decode, get


def _get_itself(value: Any) -> Any:
    return value


def extract_json(text: str, path: str) -> str | None:
    """Return the text of what a path finds in a JSON text."""
    steps = parse_path(path)
    return None if steps is None else _make_extractor(steps).extract_all(pl.Series([text]))[0]


@lru_cache(1024)
def _make_extractor(steps: tuple[Step, ...]) -> JsonExtractor:
    return JsonExtractor(steps)


def _quote(name: str) -> str:
    return orjson.dumps(name).decode()


def _is_plain(mark: str) -> bool:
    """Whether a name is always written like this, but for ASCII characters as escapes."""
    return mark.isascii() and "\\" not in mark


_INTEGER = re.compile(rb"-?[0-9]+")
_FLOAT = re.compile(rb"[0-9][.eE]")


def _write_plainly(part: Any) -> str | None:
    """Return the text of a part that is a value, or is cut out as it is written; None for null.

    Raises ValueError if Jackson may write another.
    """
    if isinstance(part, bool):
        return "true" if part else "false"
    if isinstance(part, int):
        return str(part)
    if isinstance(part, float):
        return format_float(part)
    written = bytes(part)
    first = written[0]
    if first == _QUOTE:
        return msgspec.json.decode(written) if b"\\" in written else written[1:-1].decode()
    if first in b"{[":
        return _rewrite_plainly(written)
    if first in b"tfn":
        return None if first == _NULL else written.decode()
    return str(int(written)) if _INTEGER.fullmatch(written) else format_float(float(written))


_QUOTE, _NULL = b'"n'


def _write_elements(part: Any) -> str | None:
    """Return the text of an array, or of its element if it has one; None if it has none."""
    count = len(_decode_elements(part))
    text = _write_plainly(part)
    return None if not count or not text else text[1:-1] if count == 1 else text


def _rewrite_plainly(written: bytes) -> str:
    """Return the text of an array or an object without spaces.

    Raises ValueError for what Jackson may write in another way: doubles, minus zero, characters
    beyond 16 bits or written as escapes, and names that are there twice.
    """
    dumped = orjson.dumps(orjson.loads(written))
    changes = b"-0" in dumped or b"\\u" in written or _FLOAT.search(dumped)
    if changes or dumped.count(b":") != written.count(b":"):
        raise ValueError("not as Jackson writes it")
    text = dumped.decode()
    if not text.isascii() and max(text) > "\uffff":
        raise ValueError("not as Jackson writes it")
    return text


def list_names(texts: pl.Series) -> pl.Series:
    """Return the names of the members of objects; null where a text is not one."""
    names = pl.Series(texts.name, [], dtype=pl.List(pl.String))
    for part in texts.to_frame().iter_slices(_SLICE):
        found = _map_texts(part.to_series(), _list_names, _list_names_exactly)
        names.append(build_column(found, Array(STRING)))
    return names.rechunk()


def _list_names(text: str) -> list[str] | None:
    if text.lstrip(SPACES)[:1] != "{":
        return None
    try:
        members = _decode_members(text)
    except _UNDECODABLE:
        return _list_names_exactly(text)
    if "\\" in text:
        return _list_names_exactly(text)
    if text.count(":") > len(members):
        # A name that is there twice is twice among the strings.
        strings = text.split('"')[1::2]
        if sum(map(members.__contains__, strings)) > len(members):
            return _list_names_exactly(text)
    return list(members)


def _list_names_exactly(text: str) -> list[str] | None:
    value = _read(text)
    return [name for name, _ in value] if isinstance(value, tuple) else None


def count_elements(texts: pl.Series) -> pl.Series:
    """Return the number of elements of arrays; null where a text is not one."""
    found = _map_texts(texts, _count_elements, _count_elements_exactly)
    return pl.Series(texts.name, found, dtype=pl.Int32)


def _count_elements(text: str) -> int | None:
    if text.lstrip(SPACES)[:1] != "[":
        return None
    try:
        return len(_decode_elements(text))
    except _UNDECODABLE:
        return _count_elements_exactly(text)


def _count_elements_exactly(text: str) -> int | None:
    value = _read(text)
    return len(value) if isinstance(value, list) else None


def _read(text: str) -> object:
    try:
        return read_json(text)
    except InvalidJson:
        return None


def _map_texts(
    texts: pl.Series, read: Callable[[str], Any], read_exactly: Callable[[str], Any]
) -> list[Any]:
    """Return what is read of each text; of one that may be beyond the limits, exactly."""
    beyond = list_beyond_limits(texts)
    return [
        None if text is None else read_exactly(text) if beyond and text in beyond else read(text)
        for text in texts.to_list()
    ]
