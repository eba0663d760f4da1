"""Paths into JSON texts, as in `$.orders[0]['unit price']`, with Spark's meaning of wildcards.

The rules for wildcards are those of Spark's evaluator, which follows Hive: an array of one match
is written without brackets, and `[*][*]` joins arrays. It writes while it reads, so a match found
behind one that failed may follow it; the evaluator here writes in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.expressions.json.json_reader import (
    InvalidJson,
    read_json,
)
from headrace.core.expressions.json.json_writer import (
    Quote,
    format_json,
    quote_16_bits,
    quote_characters,
)
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


class PathWildcard(Enum):
    """The steps that match more than one value; spelled `.*`, the step matches nothing in Spark."""

    ELEMENTS = "[*]"
    MEMBERS = ".*"


Step: TypeAlias = str | int | PathWildcard
"""The name of a member, the index of an element, or all elements."""

# Spark's parser skips spaces in front of a name, an index, `['` and the end, and nowhere else.
_STEP = re.compile(
    r"\s*(?P<members>\.\*|\['\*'\])|\.\s*(?P<name>[^.\[\s][^.\[]*)"
    r"|\s*\['\s*(?P<quoted>[^'\s][^']*)'\]|\[(?:(?P<all>\*)|\s*(?P<index>[0-9]+))\]",
    re.ASCII,
)
_SPACES = " \t\n\r\f\v"
_MAX_INDEX = 2**63 - 1


@lru_cache(1024)
def parse_path(text: str) -> tuple[Step, ...] | None:
    """Return the steps of a path; None if it is malformed.

    >>> parse_path("$.a[0]['b c'][*]")
    ('a', 0, 'b c', <PathWildcard.ELEMENTS: '[*]'>)
    """
    if not text.startswith("$"):
        return None
    steps: list[Step] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            return None if text[at:].strip(_SPACES) else tuple(steps)
        if found["index"]:
            index = int(found["index"])
            if index > _MAX_INDEX:
                return None
            steps.append(index)
        elif found["all"] or found["members"]:
            steps.append(PathWildcard.ELEMENTS if found["all"] else PathWildcard.MEMBERS)
        else:
            steps.append(found["name"] or found["quoted"])
        at = found.end()
    return tuple(steps)


class _Style(Enum):
    RAW = "a text without quotes"
    QUOTED = "a text in quotes, as part of an array"
    FLAT = "arrays without brackets, as part of an array"


def evaluate_path(text: str, steps: tuple[Step, ...]) -> str | None:
    """Return the text of what a path finds; None if nothing is, or the text is not JSON."""
    written: list[str] = []
    try:
        value = read_json(text)
        if not _Evaluation(written, quote_16_bits).evaluate(value, steps, _Style.RAW):
            return None
        found = " ".join(written)
        found.encode()  # half of a character cannot be written
    except (InvalidJson, UnicodeEncodeError):
        return None
    return found


@dataclass(slots=True)
class _Evaluation:
    """The evaluation of a path that writes values to one array, or to the result."""

    written: list[str]
    quote: Quote

    def evaluate(self, value: object, steps: tuple[Step, ...], style: _Style) -> bool:
        """Write what the steps find in the value, and return whether anything was found."""
        if not steps:
            return self._write(value, style)
        step, rest = steps[0], steps[1:]
        if isinstance(step, str) and isinstance(value, tuple):
            # The first member of the name that has what is wanted.
            return any(
                self.evaluate(inner, rest, style)
                for name, inner in value
                if name == step and inner is not None
            )
        if not isinstance(value, list) or isinstance(step, str):
            return False
        if isinstance(step, int):
            if rest[:1] == (PathWildcard.ELEMENTS,):
                style = _Style.QUOTED
            return step < len(value) and self.evaluate(value[step], rest, style)
        if rest[:1] == (PathWildcard.ELEMENTS,):
            return self._write_array(value, rest[1:], _Style.FLAT)
        if style is _Style.QUOTED:
            return self._write_array(value, rest, _Style.QUOTED)
        return self._write_matches(value, rest, _Style.QUOTED if style is _Style.RAW else style)

    def _write(self, value: object, style: _Style) -> bool:
        if style is _Style.RAW and isinstance(value, str):
            self.written.append(value)
        elif style is _Style.FLAT and isinstance(value, list):
            return any([self._write(each, style) for each in value])
        else:
            self.written.append(format_json(value, self.quote))
        return True

    def _write_array(self, values: list[object], steps: tuple[Step, ...], style: _Style) -> bool:
        """Write an array of what is found in all values, even if nothing is."""
        inner = _Evaluation([], self.quote)
        found = [inner.evaluate(value, steps, style) for value in values]
        self.written.append(f"[{','.join(inner.written)}]")
        return any(found)

    def _write_matches(self, values: list[object], steps: tuple[Step, ...], style: _Style) -> bool:
        """Write an array of what is found in several values, or what is found in a single one."""
        inner = _Evaluation([], quote_characters)
        found = sum([inner.evaluate(value, steps, style) for value in values])
        if found:
            text = ",".join(inner.written)
            self.written.append(f"[{text}]" if found > 1 else text)
        return found > 0


def select_members(texts: pl.Series, names: Sequence[object]) -> pl.Series:
    """Return a struct of the texts of members, named c0, c1, ..., as Spark's `json_tuple` does.

    Of members with one name, the last that is not null counts.
    """
    import polars as pl

    columns: list[list[str | None]] = [[] for _ in names]
    for text in texts.to_list():
        found = {} if text is None else _read_members(text, names)
        for name, column in zip(names, columns, strict=True):
            column.append(found.get(name))
    return pl.DataFrame(
        [pl.Series(f"c{at}", column, dtype=pl.String) for at, column in enumerate(columns)]
    ).to_struct(texts.name)


def _read_members(text: str, names: Sequence[object]) -> dict[object, str]:
    try:
        value = read_json(text)
        if not isinstance(value, tuple):
            return {}
        found = {
            name: each if isinstance(each, str) else format_json(each, quote_16_bits)
            for name, each in value
            if each is not None and name in names
        }
        for each in found.values():
            each.encode()
    except (InvalidJson, UnicodeEncodeError):
        return {}
    return found
