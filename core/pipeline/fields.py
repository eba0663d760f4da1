"""Field readings of more than one scalar: lists of names, named expressions, columns.

Each reading reports all errors inside it, each with its own position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from headrace.core.pipeline.complaints import KEY, Gathered, Unread, wanted, wrong
from headrace.core.pipeline.data import NOTHING
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    NO_SECRET,
    Json,
    Name,
    Reading,
    Reads,
    column,
    expression,
    flag,
    name,
    stream,
)
from headrace.core.type_parser import TypeTextError, parse_type
from headrace.core.types import Field as Column
from headrace.core.types import Schema, Type


def _output(text: Text) -> Text:
    if text == "else":
        raise wrong(
            text, 'the output "else" exists already: it takes the rows that no other output takes'
        )
    name.read(text)
    return text


output = Reads(name.wanted, _output, name.json)


def attempt(gathered: Gathered, reading: Reading, value: object, *at: int | str) -> object:
    """Return the value as read, or collect its errors and return None."""
    try:
        return reading.read(value)
    except Unread as unread:
        gathered.add(unread, *at)
        return None


class OneOrMany(Reading):
    """The reading of a word, or of a list of distinct words: `from`, `drop`, `partition_by`."""

    def __init__(self, each: Reading, wanted: str) -> None:
        self.each = each
        self.wanted = wanted
        self.json = {"oneOf": [each.json, {"type": "array", "items": each.json, "minItems": 1}]}

    def read(self, value: object) -> tuple[Text, ...]:
        if isinstance(value, Text):
            return (self._word(value),)
        if not isinstance(value, list) or not value:
            raise wanted(value, self.wanted)
        gathered = Gathered()
        seen: dict[Text, None] = {}
        for at, item in enumerate(value):
            if gathered.full:
                break
            word = attempt(gathered, self.each, item, at)
            if isinstance(word, Text):
                if word in seen:
                    gathered.add(wrong(item, f'"{word}" is listed twice'), at)
                seen[word] = None
        gathered.check()
        return tuple(seen)

    def _word(self, value: Text) -> Text:
        word = self.each.read(value)
        assert isinstance(word, Text)
        return word


@dataclass(frozen=True, slots=True)
class Assignment:
    """A column (or an output) and its expression; by default the input column of that name."""

    name: Text
    expression: Text | None


ALL = "without select, a step keeps its columns; with: adds columns"
NULLS = "a column of nulls needs a type: cast(null as string)"


class Assignments(Reading):
    """The reading of a mapping of names to expressions; where allowed, of a list of columns."""

    values: Reading = expression

    def __init__(self, wanted: str, names: Reading = column, *, lists: bool = False) -> None:
        self.wanted = wanted
        self.names = names
        self.lists = lists
        mapping: Json = {
            "type": "object",
            "additionalProperties": self.values.json,
            "minProperties": 1,
        }
        if names is output:
            mapping["propertyNames"] = {"not": {"const": "else"}}
        array: Json = {"type": "array", "items": names.json, "minItems": 1, "uniqueItems": True}
        self.json = {"oneOf": [mapping, array]} if lists else mapping

    def _instead(self, value: object) -> str:
        """Return the hint for a value that was written as one text."""
        if value == "*":
            return ALL
        if not self.lists or not isinstance(value, Text) or value.secret:
            return ""
        name, equal, other = (part.strip() for part in value.partition("="))
        if equal and name.isidentifier() and other:
            return f"write {{{name}: {other}}}"
        return f"write [{value}]"

    def read(self, value: object) -> tuple[Assignment, ...]:
        if self.lists and isinstance(value, list) and value:
            return tuple(Assignment(word, None) for word in self._columns(value))
        if not isinstance(value, dict) or not value:
            raise wanted(value, self.wanted, self._instead(value))
        gathered = Gathered()
        found = []
        for key, text in value.items():
            if gathered.full:
                break
            named = attempt(gathered, self.names, key, key, KEY)
            if text is NOTHING and self.names is column:
                gathered.add(wanted(text, expression.wanted, NULLS), key)
                continue
            computed = attempt(gathered, self.values, text, key)
            if isinstance(named, Text) and computed is not None:
                found.append(self.made(named, computed))
        gathered.check()
        return tuple(found)

    def made(self, name: Text, value: object) -> Assignment:
        """Return the assignment of a value that was read."""
        assert isinstance(value, Text)
        return Assignment(name, value)

    def _columns(self, value: list[object]) -> tuple[Text, ...]:
        return OneOrMany(self.names, self.wanted).read(value)


@dataclass(frozen=True, slots=True)
class Columns:
    """A declared schema, with the texts that declare it.

    The columns in `broken` are declared too, but with a type that could not be read.
    """

    schema: Schema
    names: tuple[Text, ...]
    types: tuple[Text, ...]
    broken: frozenset[str] = frozenset()


class TypeReading(Reading):
    """The reading of a column's type."""

    def __init__(self) -> None:
        self.wanted = "a type such as bigint"
        self.json = {"type": "string"}

    def read(self, value: object) -> tuple[Type, bool]:
        if not isinstance(value, Text):
            raise wanted(value, self.wanted)
        if value.secret:
            raise wrong(value, NO_SECRET)
        try:
            return parse_type(value)
        except TypeTextError as error:
            raise wrong(value, error.message, error.hint, (error.start, error.end)) from None


class ColumnTypes(Reading):
    """The reading of a mapping of columns to types."""

    def __init__(self) -> None:
        self.wanted = "columns and their types, as in {id: bigint, name: string}"
        self.json = {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "minProperties": 1,
        }

    def read(self, value: object) -> Columns:
        if isinstance(value, Columns):
            return value
        if not isinstance(value, dict) or not value:
            raise wanted(value, self.wanted)
        gathered = Gathered()
        sound: dict[Text, tuple[Text, Column]] = {}
        for key, text in value.items():
            if gathered.full:
                break
            attempt(gathered, column, key, key, KEY)
            typed = attempt(gathered, TypeReading(), text, key)
            if isinstance(typed, tuple):
                sound[key] = (text, Column(str(key), *typed))
        columns = Columns(
            Schema(tuple(field for _, field in sound.values())),
            tuple(sound),
            tuple(text for text, _ in sound.values()),
            frozenset(map(str, value.keys() - sound.keys())),
        )
        gathered.check(partial=columns)
        return columns


@dataclass(frozen=True, slots=True)
class Explode:
    """One row for each element of `array`, with the element in the column `name`."""

    name: Text
    array: Text
    outer: bool = False


OUTER = "Keep a row whose array is empty or null, with a null in the column."


class Exploding(Reading):
    """The reading of a mapping of one new column to an array column, with `outer`."""

    def __init__(self) -> None:
        self.wanted = "one column and the array it comes from, as in {item: items}"
        self.json = {
            "type": "object",
            "properties": {"outer": {"type": "boolean", "description": OUTER}},
            "additionalProperties": expression.json,
            "minProperties": 1,
            "anyOf": [
                {"maxProperties": 1, "not": {"required": ["outer"]}},
                {"minProperties": 2, "maxProperties": 2, "required": ["outer"]},
            ],
        }

    def read(self, value: object) -> Explode:
        columns = (
            {key: text for key, text in value.items() if key != "outer"}
            if isinstance(value, dict)
            else {}
        )
        if not isinstance(value, dict):
            raise wanted(value, self.wanted)
        if len(columns) != 1:
            came = " and ".join(f'"{key}"' for key in list(columns)[:5]) or "none"
            raise wrong(value, f"wanted {self.wanted}, got {came}")
        gathered = Gathered()
        (key, text), *_ = columns.items()
        named = attempt(gathered, column, key, key, KEY)
        array = attempt(gathered, column, text, key)
        outer = attempt(gathered, flag, value["outer"], "outer") if "outer" in value else False
        gathered.check()
        assert isinstance(named, Text) and isinstance(array, Text)
        return Explode(named, array, bool(outer))


@dataclass(frozen=True, slots=True)
class OnError:
    """The action for a row that fails: fail the job, skip the row, or write it to a stream."""

    action: Literal["fail", "skip", "to"] = "fail"
    to: Text | None = None


class ErrorStream(Part):
    """The stream of rows that fail."""

    to: Name = Field(description="A stream that steps and sinks can read.")


class OnErrorReading(Reading):
    """The reading of `fail`, `skip` or `{to: name}`."""

    part = ErrorStream

    def __init__(self) -> None:
        self.wanted = "fail, skip or {to: name}"
        self.json = {"enum": ["fail", "skip"]}

    def read(self, value: object) -> OnError:
        if isinstance(value, dict):
            return OnError("to", ErrorStream.model_validate(value).to)
        if isinstance(value, Text) and not value.secret:
            if value == "fail":
                return OnError("fail")
            if value == "skip":
                return OnError("skip")
        raise wanted(value, self.wanted)


class Variants(Reading):
    """The reading of a mapping whose keys depend on one word in it: a restart's on its strategy."""

    def __init__(self, key: str, models: Mapping[str, type[Part]], default: str) -> None:
        self.key = key
        self.models = models
        self.default = default
        self.wanted = f'a mapping with "{key}"'
        self.json = {}

    def read(self, value: object) -> Part:
        if not isinstance(value, dict):
            raise wanted(value, self.wanted, self._short(value))
        word = value.get(self.key)
        return self.model(word if isinstance(word, str) else "").model_validate(value)

    def model(self, word: str) -> type[Part]:
        """Return the model for a word; for an unknown one the default model, which rejects it."""
        return self.models.get(word, self.models[self.default])

    def _short(self, value: object) -> str:
        known = isinstance(value, Text) and value in self.models
        return f"write {{{self.key}: {value}}}" if known else ""


Names = Annotated[
    tuple[Text, ...], OneOrMany(stream, "the name of a source or step, or a list of names")
]
ColumnNames = Annotated[tuple[Text, ...], OneOrMany(column, "a column, or a list of columns")]
Select = Annotated[
    tuple[Assignment, ...],
    Assignments("columns: a list, or a mapping such as {x: a + 1}", lists=True),
]
Computed = Annotated[
    tuple[Assignment, ...], Assignments("columns and expressions, as in {x: a + 1}")
]
Route = Annotated[
    tuple[Assignment, ...], Assignments("outputs and conditions, as in {big: price > 100}", output)
]
Types = Annotated[Columns, ColumnTypes()]
Exploded = Annotated[Explode, Exploding()]
ErrorHandling = Annotated[OnError, OnErrorReading()]
