"""The clauses of steps with keyed state: key, aggregate, apply, top, over, dedup, ttl.

Each mapping here reads its own keys. The rules for keys that go together, such as `every` with
`slide`, are in `clause_rules`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from headrace.core.errors.problems import suggest_name
from headrace.core.pipeline.diagnostics import (
    KEY,
    ValueProblemCollector,
    make_expected_error,
    make_value_error,
)
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import (
    Assignment,
    AssignmentsReading,
    ColumnNames,
    OneOrManyReading,
    TypeReading,
    Types,
    read_or_collect,
)
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.user_files.references import ClassName, FunctionName
from headrace.core.pipeline.values import (
    Count,
    FieldReading,
    Json,
    Name,
    NonzeroDuration,
    TimeDomain,
    choice_of,
    column,
    duration,
    expression,
    nonzero_duration,
)
from headrace.core.types.data_types import Type
from headrace.core.types.lazy_dataclass import dataclass


class Ttl(DocumentModel):
    """The time for which the state of a key is stored after its last row."""

    after: NonzeroDuration = Field(description="How long.")
    time: TimeDomain = Field("event", description="In event time, or `processing`, the wall clock.")


class TtlReading(FieldReading):
    """The reading of a duration, or of a mapping that also names the time it is measured in."""

    part = Ttl

    def __init__(self) -> None:
        self.json = duration.json
        self.wanted = "a duration such as 1h, or {after: 1h, time: processing}"

    def read(self, value: object) -> Ttl:
        if isinstance(value, Text):
            after = nonzero_duration.read(value)
            assert isinstance(after, timedelta)
            return Ttl.model_construct(after=after, time="event")
        if not isinstance(value, dict):
            raise make_expected_error(value, self.wanted)
        return Ttl.model_validate(value)


class KeyReading(FieldReading):
    """The reading of a column, a list of columns, or a mapping of names to expressions."""

    def __init__(self) -> None:
        self.wanted = "a column, a list of columns, or a mapping such as {day: to_date(at)}"
        self._list_reading = AssignmentsReading(self.wanted, lists=True)
        self.json = {"oneOf": [column.json, *self._list_reading.json["oneOf"]]}

    def read(self, value: object) -> tuple[Assignment, ...]:
        if isinstance(value, Text):
            name = column.read(value)
            assert isinstance(name, Text)
            return (Assignment(name, None),)
        if value == []:
            raise make_expected_error(value, self.wanted, "without key: all rows are one group")
        return self._list_reading.read(value)


class PythonAggregate(DocumentModel):
    """A user-defined aggregate, in place of an expression: a class with `partial`, `merge` and
    `finish`, each called once per group of rows. [Windows](windows.md) has an example.
    """

    python: ClassName = Field(description="The file, next to the pipeline, and the class.")
    of: Annotated[
        tuple[Text, ...], OneOrManyReading(expression, "an expression, or a list of expressions")
    ] = Field(description="The arguments of `partial`: one or several columns, each a Series.")
    returns: Annotated[tuple[Type, bool], TypeReading()] = Field(
        description="The type of the value that `finish` returns."
    )


class AggregateReading(FieldReading):
    """The reading of an expression over the rows of a group, or of a user-defined aggregate."""

    wanted = expression.wanted

    def __init__(self) -> None:
        self._readings = {}
        properties = {}
        for key, name in PythonAggregate.fields_by_key().items():
            field = PythonAggregate.model_fields[name]
            reading = field.reading
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
        gathered = ValueProblemCollector()
        for key in value:
            if key not in self._readings:
                hint = suggest_name(key, tuple(self._readings)) or f"as in {PYTHON_EXAMPLE}"
                gathered.add(make_value_error(key, f'unknown key "{key}"', hint), key, KEY)
        values: dict[str, Any] = {}
        for key, reading in self._readings.items():
            if key in value:
                values[key] = read_or_collect(gathered, reading, value[Text(key)], key)
            else:
                gathered.add(
                    make_value_error(value, f'missing key "{key}"', f"as in {PYTHON_EXAMPLE}")
                )
        gathered.raise_if_any()
        return PythonAggregate.model_construct(**values)


PYTHON_EXAMPLE = "{python: w.py:P99, of: [amount], returns: double}"


@dataclass(frozen=True, slots=True)
class UserAssignment(Assignment):
    """A column that a user-defined aggregate computes."""

    python: PythonAggregate


class AggregatesReading(AssignmentsReading):
    """The reading of a mapping of names to expressions over the rows of a group."""

    values = AggregateReading()

    def make_assignment(self, name: Text, value: object) -> Assignment:
        """Return the assignment of a value that was read."""
        if isinstance(value, PythonAggregate):
            return UserAssignment(name, None, value)
        assert isinstance(value, Text)
        return Assignment(name, value)


Key = Annotated[tuple[Assignment, ...], KeyReading()]
Aggregates = Annotated[
    tuple[Assignment, ...], AggregatesReading("columns and aggregates, as in {n: count(*)}")
]
OverColumns = Annotated[
    tuple[Assignment, ...],
    AssignmentsReading("columns over the rows of a key, as in {previous: lag(price)}"),
]
Rankings = Annotated[
    tuple[Text, ...],
    OneOrManyReading(expression, "an expression such as price desc, or a list of them"),
]
TimeToLive = Annotated[Ttl, TtlReading()]


class Apply(DocumentModel):
    """A Python function over all rows of a key and window, which returns any number of rows."""

    python: FunctionName = Field(description="The file, next to the pipeline, and the function.")
    returns: Types = Field(description="The columns that it returns, and their types.")
    of: ColumnNames | None = Field(
        None, description="The columns that are passed to it; by default all."
    )


class Top(DocumentModel):
    """The first rows of each key (and window) in an order; the column `rank` counts them from 1."""

    n: Count = Field(description="How many rows of each key.")
    by: Rankings = Field(
        description="The order: an expression, then `asc` or `desc`, then `nulls first` or "
        "`nulls last`; or a list of these. The default is `asc`; nulls are first with `asc` and "
        "last with `desc`."
    )
    ties: Annotated[
        Literal["row_number", "rank", "dense_rank"],
        choice_of("row_number", "rank", "dense_rank"),
    ] = Field(
        "row_number",
        description="How rows with equal values of `by` are counted, as SQL's functions do: each "
        "by itself (`row_number`); as one rank, after which ranks are left out (`rank`) or not "
        "(`dense_rank`), so that more than `n` rows may be the first ones.",
    )


class Dedup(DocumentModel):
    """One row per key."""

    key: Key = Field(description="The key by which rows are equal: columns, or named expressions.")
    keep: Annotated[Literal["first", "last"], choice_of("first", "last")] = Field(
        "first",
        description="The `first` row of a key, or the `last`, which replaces the rows before it.",
    )
    order: Annotated[Literal["arrival", "event_time"], choice_of("arrival", "event_time")] = Field(
        "arrival",
        description="The order that defines first and last: that of `arrival`, or of `event_time`, "
        "for which rows wait until the watermark has passed them.",
    )
    ttl: Annotated[timedelta | None, nonzero_duration] = Field(
        None, description="How long after its last row a key expires; by default never."
    )
    time: TimeDomain = Field(
        "event", description="The time of `ttl`: event time, or `processing`, the wall clock."
    )
    late_to: Name | None = Field(
        None,
        description="With `order: event_time`, a stream for rows that arrive after the watermark "
        "has passed them, unchanged; by default they are counted and dropped.",
    )
