"""The clauses of steps that keep state by key: key, aggregate, apply, top, dedup, ttl.

Each mapping here reads its own keys. What only makes sense beside something else, as `every` beside
`slide`, is looked at in `keyed_rules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.core.pipeline.complaints import KEY, Gathered, wanted, wrong
from headrace.core.pipeline.fields import (
    Assignment,
    Assignments,
    ColumnNames,
    OneOrMany,
    TypeReading,
    Types,
    attempt,
)
from headrace.core.pipeline.functions import ClassName, FunctionName
from headrace.core.pipeline.lengths import Length, Time, length
from headrace.core.pipeline.part import Part, reading_of
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    Count,
    Json,
    Name,
    Reading,
    choice,
    column,
    duration,
    expression,
)
from headrace.core.problems import did_you_mean
from headrace.core.types import Type


class Ttl(Part):
    """How long a key is remembered after its last row."""

    after: Length = Field(description="How long.")
    time: Time = Field("event", description="By the time of rows, or `processing`, the wall clock.")


class TtlReading(Reading):
    """A duration, or a mapping that also says of which time."""

    part = Ttl

    def __init__(self) -> None:
        self.json = duration.json
        self.wanted = "a duration such as 1h, or {after: 1h, time: processing}"

    def read(self, value: object) -> Ttl:
        if isinstance(value, Text):
            after = length.read(value)
            assert isinstance(after, timedelta)
            return Ttl.model_construct(after=after, time="event")
        if not isinstance(value, dict):
            raise wanted(value, self.wanted)
        return Ttl.model_validate(value)


class KeyReading(Reading):
    """A column, a list of columns, or a mapping of names to expressions."""

    def __init__(self) -> None:
        self.wanted = "a column, a list of columns, or a mapping such as {day: to_date(at)}"
        self._many = Assignments(self.wanted, lists=True)
        self.json = {"oneOf": [column.json, *self._many.json["oneOf"]]}

    def read(self, value: object) -> tuple[Assignment, ...]:
        if isinstance(value, Text):
            name = column.read(value)
            assert isinstance(name, Text)
            return (Assignment(name, None),)
        if value == []:
            raise wanted(value, self.wanted, "without key: all rows are one group")
        return self._many.read(value)


class PythonAggregate(Part):
    """An aggregate of your own, in the place of an expression: a class with `partial`, `merge` and
    `finish`, each of which is called once a group of rows. [Windows](windows.md) has an example.
    """

    python: ClassName = Field(description="The file, beside the pipeline, and the class.")
    of: Annotated[
        tuple[Text, ...], OneOrMany(expression, "an expression, or a list of expressions")
    ] = Field(description="What `partial` gets of the rows: a column, or several, each a Series.")
    returns: Annotated[tuple[Type, bool], TypeReading()] = Field(
        description="The type of what `finish` returns."
    )


class AggregateReading(Reading):
    """An expression over the rows of a group, or a class of the user's."""

    wanted = expression.wanted

    def __init__(self) -> None:
        self._readings = {}
        properties = {}
        for key, name in PythonAggregate.written().items():
            field = PythonAggregate.model_fields[name]
            reading = reading_of(field)
            assert reading is not None
            self._readings[key] = reading
            properties[key] = reading.json | {"description": field.description}
        python: Json = {
            "type": "object",
            "properties": properties,
            "required": [*properties],
            "additionalProperties": False,
        }
        self.json: Json = {"anyOf": [expression.json, python]}

    def read(self, value: object) -> object:
        if not isinstance(value, dict):
            return expression.read(value)
        gathered = Gathered()
        for key in value:
            if key not in self._readings:
                hint = did_you_mean(key, tuple(self._readings)) or f"as in {PYTHON}"
                gathered.add(wrong(key, f'unknown key "{key}"', hint), key, KEY)
        found: dict[str, Any] = {}
        for key, reading in self._readings.items():
            if key in value:
                found[key] = attempt(gathered, reading, value[Text(key)], key)
            else:
                gathered.add(wrong(value, f'missing key "{key}"', f"as in {PYTHON}"))
        gathered.check()
        return PythonAggregate.model_construct(**found)


PYTHON = "{python: w.py:P99, of: [amount], returns: double}"


@dataclass(frozen=True, slots=True)
class UserAssignment(Assignment):
    """A column that a class of the user's makes."""

    python: PythonAggregate


class AggregatesReading(Assignments):
    """A mapping of names to expressions over the rows of a group."""

    values = AggregateReading()

    def made(self, name: Text, value: object) -> Assignment:
        """The assignment of what was read."""
        if isinstance(value, PythonAggregate):
            return UserAssignment(name, None, value)
        assert isinstance(value, Text)
        return Assignment(name, value)


Key = Annotated[tuple[Assignment, ...], KeyReading()]
Aggregates = Annotated[
    tuple[Assignment, ...], AggregatesReading("columns and aggregates, as in {n: count(*)}")
]
Rankings = Annotated[
    tuple[Text, ...], OneOrMany(expression, "an expression such as price desc, or a list of them")
]
TimeToLive = Annotated[Ttl, TtlReading()]


class Apply(Part):
    """A Python function over all rows of a key and window, which returns rows, or none."""

    python: FunctionName = Field(description="The file, beside the pipeline, and the function.")
    returns: Types = Field(description="The columns that it returns, and their types.")
    of: ColumnNames | None = Field(
        None, description="The columns that it gets of the rows; by default all."
    )


class Top(Part):
    """The first rows of each key (and window) in an order; a column `rank` counts them from 1."""

    n: Count = Field(description="How many rows of each key.")
    by: Rankings = Field(
        description="The order: an expression, `asc` or `desc` behind it, and `nulls first` or "
        "`nulls last`; or a list of them. `asc` and nulls first, `desc` and nulls last by default."
    )


class Dedup(Part):
    """One row a key."""

    key: Key = Field(description="What makes rows the same: columns, or named expressions.")
    keep: Annotated[Literal["first", "last"], choice("first", "last")] = Field(
        "first",
        description="The `first` row that comes, or the `last`, which replaces those before it.",
    )
    order: Annotated[Literal["arrival", "event_time"], choice("arrival", "event_time")] = Field(
        "arrival",
        description="What first and last mean: as rows come, or by `event_time`, for which they "
        "wait until the watermark has passed them.",
    )
    ttl: Annotated[timedelta | None, length] = Field(
        None, description="A key is forgotten so long after its last row; by default never."
    )
    time: Time = Field(
        "event", description="The time of `ttl`: of rows, or `processing`, the wall clock."
    )
    late_to: Name | None = Field(
        None,
        description="With `order: event_time`, a stream for rows that come behind the watermark, "
        "as they came to the step; by default they are counted and dropped.",
    )
