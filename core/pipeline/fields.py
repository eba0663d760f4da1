"""Field readings of more than one scalar: lists of names, named expressions, columns.

Each reading reports all errors inside it, each with its own position.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from headrace.core.pipeline.diagnostics import (
    KEY,
    InvalidValue,
    ValueProblemCollector,
    make_expected_error,
    make_value_error,
)
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.text import NOTHING, Text
from headrace.core.pipeline.values import (
    NO_SECRET_MESSAGE,
    FieldReading,
    Json,
    Name,
    ScalarReading,
    column,
    expression,
    flag,
    name,
    stream,
)
from headrace.core.pipeline.yaml_document.error_context import (
    SELECT_ALL_HINT,
    format_flow_scalar,
    split_flow_items,
)
from headrace.core.types.data_types import Field as Column
from headrace.core.types.data_types import Schema, Type
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern
from headrace.core.types.type_parser import TypeTextError, parse_type


def _parse_output(text: Text) -> Text:
    if text == "else":
        raise make_value_error(
            text, 'the output "else" exists already: it takes the rows that no other output takes'
        )
    name.read(text)
    return text


output = ScalarReading(name.wanted, _parse_output, name.json)


def read_or_collect(
    gathered: ValueProblemCollector, reading: FieldReading, value: object, *at: int | str
) -> object:
    """Return the value as read, or collect its errors and return None."""
    try:
        return reading.read(value)
    except InvalidValue as unread:
        gathered.add(unread, *at)
        return None


class OneOrManyReading(FieldReading):
    """The reading of a word, or of a list of distinct words: `from`, `drop`, `partition_by`."""

    def __init__(self, each: FieldReading, wanted: str) -> None:
        self.item_reading = each
        self.wanted = wanted
        self.json = {"oneOf": [each.json, {"type": "array", "items": each.json, "minItems": 1}]}

    def read(self, value: object) -> tuple[Text, ...]:
        if isinstance(value, Text):
            return (self._read_word(value),)
        if not isinstance(value, list) or not value:
            raise make_expected_error(value, self.wanted)
        gathered = ValueProblemCollector()
        seen: dict[Text, None] = {}
        for at, item in enumerate(value):
            if gathered.is_full:
                break
            word = read_or_collect(gathered, self.item_reading, item, at)
            if isinstance(word, Text):
                if word in seen:
                    gathered.add(make_value_error(item, f'"{word}" is listed twice'), at)
                seen[word] = None
        gathered.raise_if_any()
        return tuple(seen)

    def _read_word(self, value: Text) -> Text:
        word = self.item_reading.read(value)
        assert isinstance(word, Text)
        return word


@dataclass(frozen=True, slots=True)
class Assignment:
    """A column (or an output) and its expression; by default the input column of that name."""

    name: Text
    expression: Text | None


NULL_COLUMN_HINT = "a column of nulls needs a type: cast(null as string)"


_QUERY = compile_pattern(
    r"\s*select\s+(.*?)(?:\s+from\s+[\w.]+(?:\s+(where|group|order|limit)\b.*)?)?\s*",
    re.IGNORECASE | re.DOTALL,
)
_ALIAS = compile_pattern(r"(.+?)\s+as\s+(\w+)", re.IGNORECASE | re.DOTALL)


def suggest_select(value: str) -> str:
    """Return the hint for columns that were written as one text, perhaps as in SQL.

    >>> suggest_select("select k, upper(name) as name from s")
    'write {k: k, name: upper(name)}'
    """
    query = _QUERY.fullmatch(value)
    items = split_flow_items(query[1] if query else value)
    if "*" in items:
        return SELECT_ALL_HINT
    named = [(found[2], found[1]) if (found := _ALIAS.fullmatch(i)) else ("", i) for i in items]
    clause = "; the other clauses are keys of the step" if query and query[2] else ""
    if all(not name and text.replace(".", "_").isidentifier() for name, text in named):
        return f"write [{', '.join(items)}]{clause}"
    columns = (
        f"{name or (text if text.isidentifier() else f'x{at}')}: {format_flow_scalar(text)}"
        for at, (name, text) in enumerate(named, 1)
    )
    return f"write {{{', '.join(columns)}}}{clause}"


class AssignmentsReading(FieldReading):
    """The reading of a mapping of names to expressions; where allowed, of a list of columns."""

    values: FieldReading = expression

    def __init__(self, wanted: str, names: FieldReading = column, *, lists: bool = False) -> None:
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

    def _suggest(self, value: object) -> str:
        """Return the hint for a value that was written as one text."""
        if value == "*":
            return SELECT_ALL_HINT
        if not self.lists or not isinstance(value, Text) or value.secret:
            return ""
        name, equal, other = (part.strip() for part in value.partition("="))
        if equal and name.isidentifier() and other:
            return f"write {{{name}: {format_flow_scalar(other)}}}"
        return suggest_select(value)

    def read(self, value: object) -> tuple[Assignment, ...]:
        if self.lists and isinstance(value, list) and value:
            return tuple(Assignment(word, None) for word in self._columns(value))
        if not isinstance(value, dict) or not value:
            raise make_expected_error(value, self.wanted, self._suggest(value))
        gathered = ValueProblemCollector()
        assignments = []
        for key, text in value.items():
            if gathered.is_full:
                break
            named = read_or_collect(gathered, self.names, key, key, KEY)
            if text is NOTHING and self.names is column:
                gathered.add(make_expected_error(text, expression.wanted, NULL_COLUMN_HINT), key)
                continue
            computed = read_or_collect(gathered, self.values, text, key)
            if isinstance(named, Text) and computed is not None:
                assignments.append(self.make_assignment(named, computed))
        gathered.raise_if_any()
        return tuple(assignments)

    def make_assignment(self, name: Text, value: object) -> Assignment:
        """Return the assignment of a value that was read."""
        assert isinstance(value, Text)
        return Assignment(name, value)

    def _columns(self, value: list[object]) -> tuple[Text, ...]:
        return OneOrManyReading(self.names, self.wanted).read(value)


@dataclass(frozen=True, slots=True)
class DeclaredColumns:
    """A declared schema, with the texts that declare it.

    The columns in `broken_names` are declared too, but with a type that could not be read.
    """

    schema: Schema
    names: tuple[Text, ...]
    types: tuple[Text, ...]
    broken_names: frozenset[str] = frozenset()


class TypeReading(FieldReading):
    """The reading of a column's type."""

    def __init__(self) -> None:
        self.wanted = "a type such as bigint"
        self.json = {"type": "string"}

    def read(self, value: object) -> tuple[Type, bool]:
        if not isinstance(value, Text):
            raise make_expected_error(value, self.wanted)
        if value.secret:
            raise make_value_error(value, NO_SECRET_MESSAGE)
        try:
            return parse_type(value)
        except TypeTextError as error:
            raise make_value_error(
                value, error.message, error.hint, (error.start, error.end)
            ) from None


class ColumnTypesReading(FieldReading):
    """The reading of a mapping of columns to types."""

    def __init__(self) -> None:
        self.wanted = "columns and their types, as in {id: bigint, name: string}"
        self.json = {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "minProperties": 1,
        }

    def read(self, value: object) -> DeclaredColumns:
        if isinstance(value, DeclaredColumns):
            return value
        if not isinstance(value, dict) or not value:
            raise make_expected_error(value, self.wanted)
        gathered = ValueProblemCollector()
        sound: dict[Text, tuple[Text, Column]] = {}
        for key, text in value.items():
            if gathered.is_full:
                break
            read_or_collect(gathered, column, key, key, KEY)
            typed = read_or_collect(gathered, TypeReading(), text, key)
            if isinstance(typed, tuple):
                sound[key] = (text, Column(str(key), *typed))
        columns = DeclaredColumns(
            Schema(tuple(field for _, field in sound.values())),
            tuple(sound),
            tuple(text for text, _ in sound.values()),
            frozenset(map(str, value.keys() - sound.keys())),
        )
        gathered.raise_if_any(partial=columns)
        return columns


@dataclass(frozen=True, slots=True)
class Explode:
    """One row for each element of `array`, with the element in the column `name`.

    Without a name, `array` is the call of a generator, which may name its columns.
    """

    name: Text | None
    array: Text
    outer: bool = False


OUTER_DESCRIPTION = "Keep a row whose array is empty or null, with a null in the column."


class ExplodeReading(FieldReading):
    """The reading of a mapping of one new column to an array, with `outer`, or of a generator."""

    def __init__(self) -> None:
        self.wanted = "one column and the array it comes from, as in {item: items}"
        mapping = {
            "type": "object",
            "properties": {"outer": {"type": "boolean", "description": OUTER_DESCRIPTION}},
            "additionalProperties": expression.json,
            "minProperties": 1,
            "anyOf": [
                {"maxProperties": 1, "not": {"required": ["outer"]}},
                {"minProperties": 2, "maxProperties": 2, "required": ["outer"]},
            ],
        }
        self.json = {"anyOf": [{"type": "string"}, mapping]}

    def read(self, value: object) -> Explode:
        if isinstance(value, Text) and "(" in value.reveal():
            return Explode(None, value)
        columns = (
            {key: text for key, text in value.items() if key != "outer"}
            if isinstance(value, dict)
            else {}
        )
        if not isinstance(value, dict):
            raise make_expected_error(value, self.wanted)
        if len(columns) != 1:
            actual = " and ".join(f'"{key}"' for key in list(columns)[:5]) or "none"
            raise make_value_error(value, f"wanted {self.wanted}, got {actual}")
        gathered = ValueProblemCollector()
        (key, text), *_ = columns.items()
        named = read_or_collect(gathered, column, key, key, KEY)
        array = read_or_collect(gathered, expression, text, key)
        outer = (
            read_or_collect(gathered, flag, value["outer"], "outer") if "outer" in value else False
        )
        gathered.raise_if_any()
        assert isinstance(named, Text) and isinstance(array, Text)
        return Explode(named, array, bool(outer))


@dataclass(frozen=True, slots=True)
class OnError:
    """The action for a row that fails: fail the job, skip the row, or write it to a stream."""

    action: Literal["fail", "skip", "to"] = "fail"
    to: Text | None = None


class ErrorStream(DocumentModel):
    """The stream of rows that fail."""

    to: Name = Field(description="A stream that steps and sinks can read.")


class OnErrorReading(FieldReading):
    """The reading of `fail`, `skip` or `{to: name}`."""

    part = ErrorStream

    def __init__(self) -> None:
        self.wanted = "fail, skip or {to: name}"
        self.json = {"enum": ["fail", "skip"]}

    def read(self, value: object) -> OnError:
        if isinstance(value, dict):
            return OnError("to", self._check_name(ErrorStream.model_validate(value).to))
        if isinstance(value, Text) and not value.secret:
            if value == "fail":
                return OnError("fail")
            if value == "skip":
                return OnError("skip")
        raise make_expected_error(value, self.wanted)

    def _check_name(self, stream: Text) -> Text:
        """Return the name of a stream. Raises InvalidValue for that of an action."""
        if stream in ("fail", "skip"):
            message = f'a stream cannot be called "{stream}", which is an action'
            hint = f"write on_error: {stream}, or give the stream another name"
            raise make_value_error(stream, message, hint)
        return stream


class VariantsReading(FieldReading):
    """The reading of a mapping whose keys depend on one word in it: a restart's on its strategy."""

    def __init__(self, key: str, models: Mapping[str, type[DocumentModel]], default: str) -> None:
        self.key = key
        self.models = models
        self.default = default
        self.wanted = f'a mapping with "{key}"'
        self.json = {}

    def read(self, value: object) -> DocumentModel:
        if not isinstance(value, dict):
            raise make_expected_error(value, self.wanted, self._suggest(value))
        word = value.get(self.key)
        return self.get_model(word if isinstance(word, str) else "").model_validate(value)

    def get_model(self, word: str) -> type[DocumentModel]:
        """Return the model for a word; for an unknown one the default model, which rejects it."""
        return self.models.get(word, self.models[self.default])

    def _suggest(self, value: object) -> str:
        known = isinstance(value, Text) and value in self.models
        return f"write {{{self.key}: {value}}}" if known else ""


Names = Annotated[
    tuple[Text, ...], OneOrManyReading(stream, "the name of a source or step, or a list of names")
]
ColumnNames = Annotated[
    tuple[Text, ...], OneOrManyReading(column, "a column, or a list of columns")
]
Select = Annotated[
    tuple[Assignment, ...],
    AssignmentsReading("columns: a list, or a mapping such as {x: a + 1}", lists=True),
]
Computed = Annotated[
    tuple[Assignment, ...], AssignmentsReading("columns and expressions, as in {x: a + 1}")
]
Route = Annotated[
    tuple[Assignment, ...],
    AssignmentsReading("outputs and conditions, as in {big: price > 100}", output),
]
Types = Annotated[DeclaredColumns, ColumnTypesReading()]
ExplodeClause = Annotated[Explode, ExplodeReading()]
ErrorHandling = Annotated[OnError, OnErrorReading()]
