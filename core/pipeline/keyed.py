"""The clauses of steps that keep state by key: key, window, aggregate, top, dedup, ttl.

Each mapping here reads its own keys. What only makes sense beside something else, as `every` beside
`slide`, is looked at in `keyed_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from headrace.core.pipeline.part import Part, reading_of
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    Count,
    Flag,
    Json,
    Name,
    Reading,
    Reads,
    Unfit,
    choice,
    column,
    count,
    duration,
    expression,
)
from headrace.core.problems import did_you_mean
from headrace.core.types import Type

LONGEST = timedelta(days=1_000_000)
"""Longer than any stream; and event times that are moved by it can still be counted."""


def _moved(text: Text) -> timedelta:
    length = duration.parse(text)
    assert isinstance(length, timedelta)
    if length > LONGEST:
        raise Unfit(wanted=f"a duration of at most {LONGEST.days}d")
    return length


def _length(text: Text) -> timedelta:
    length = _moved(text)
    if not length:
        raise Unfit(wanted="a duration longer than 0s")
    return length


def _every(text: Text) -> timedelta | int:
    try:
        number = count.parse(text)
    except Unfit:
        return _length(text)
    assert isinstance(number, int)
    return number


def _yes(text: Text) -> bool:
    if text != "true":
        raise Unfit
    return True


moved = Reads(duration.wanted, _moved, duration.json)
length = Reads(duration.wanted, _length, duration.json)
step_of = Reads(
    "a duration such as 1s, or with count a number of rows",
    _every,
    {"anyOf": [duration.json, count.json]},
)
yes = Reads("true", _yes, {"const": True})

Length = Annotated[timedelta, length]
Moved = Annotated[timedelta, moved]
Time = Annotated[Literal["event", "processing"], choice("event", "processing")]
SHAPES = ("tumble", "slide", "session", "count", "cumulate", "global")


class Trigger(Part):
    """When windows fire before their end: every so often, after so many rows of a key, or when a
    class of yours says so. [Windows](windows.md) has an example.
    """

    one_of = ("every", "count", "python")
    every: Length | None = Field(None, description="Each time so much time has passed.")
    count: Count | None = Field(
        None, description="Each time so many rows of a key have come to a window."
    )
    time: Time = Field(
        "event", description="The time of `every`: of the rows, or `processing`, the wall clock."
    )
    python: ClassName | None = Field(
        None, description="The file, beside the pipeline, and a class with `on_rows`."
    )
    of: ColumnNames | None = Field(
        None, description="The columns that `on_rows` gets of the rows; by default all."
    )


class Evict(Part):
    """Which rows of a key in a window its aggregates see: the last, those near the last, or those
    that a function of yours returns. [Windows](windows.md) has an example.
    """

    one_of = ("last", "within", "python")
    last: Count | None = Field(None, description="So many rows, the latest in event time.")
    within: Length | None = Field(
        None, description="Rows at most so long before the latest in event time."
    )
    python: FunctionName | None = Field(
        None, description="The file, beside the pipeline, and a function that returns some rows."
    )
    of: ColumnNames | None = Field(
        None, description="The columns that the function gets of the rows; by default all."
    )


WINDOW_HABITS: Mapping[str, str] = {
    **dict.fromkeys(("size", "length", "duration", "tumbling", "fixed"), "tumble"),
    **dict.fromkeys(("hop", "hopping", "sliding"), "slide"),
    **dict.fromkeys(("step", "advance", "period"), "every"),
    **dict.fromkeys(("gap", "sessions"), "session"),
    **dict.fromkeys(("rows", "last_rows"), "count"),
    **dict.fromkeys(("grace", "allowed_lateness", "late"), "lateness"),
    **dict.fromkeys(("side_output", "late_output"), "late_to"),
    **dict.fromkeys(("evictor", "keep"), "evict"),
}


class Window(Part):
    """Which rows belong together: one of tumble, slide, session, count, cumulate and global.

    Windows of time begin at multiples of their length (of `every`, where they slide) since 1970,
    moved by `offset`; a row at their end belongs to the next.
    """

    one_of = SHAPES
    habits = WINDOW_HABITS
    tumble: Length | None = Field(None, description="Windows of this length, one after the other.")
    slide: Length | None = Field(
        None, description="Windows of this length, a new one each `every`; a row is in several."
    )
    session: Length | None = Field(
        None,
        description="Windows that go on while rows of a key come at most so long after each other.",
    )
    count: Count | None = Field(
        None,
        description="So many rows of a key, as they come; with `every`, the last so many of them "
        "each time so many more have come.",
    )
    cumulate: Length | None = Field(
        None, description="As `tumble`, and fires each `every` with all rows since the start."
    )
    global_: Annotated[bool | None, yes] = Field(
        None,
        alias="global",
        description="One window of all rows, which fires at the end, and as `trigger` says; "
        "`window: global` is short for it.",
    )
    every: Annotated[timedelta | int | None, step_of] = Field(
        None, description="How far apart windows begin (`slide`, `count`) or fire (`cumulate`)."
    )
    offset: Moved = Field(timedelta(), description="Windows of time begin so much later.")
    lateness: Moved = Field(
        timedelta(),
        description="How long after its end a window still takes rows, and fires again with them.",
    )
    late_to: Name | None = Field(
        None,
        description="A stream for rows that come too late, as they came to the step; by default "
        "they are counted and dropped.",
    )
    time: Time = Field(
        "event",
        description="Rows belong to the time of their `event`, or of their `processing` here.",
    )
    trigger: Trigger | None = Field(
        None, description="When windows fire before their end; each time their whole row."
    )
    accumulate: Flag = Field(
        True, description="Whether a window that fired keeps its rows for the next time it fires."
    )
    evict: Evict | None = Field(
        None, description="Which of a window's rows are seen when it fires; by default all."
    )


class WindowReading(Reading):
    """A mapping, or `global`."""

    part = Window

    def __init__(self) -> None:
        self.json = {"const": "global"}
        self.wanted = f"a mapping with one of {', '.join(SHAPES)}"

    def read(self, value: object) -> Window:
        if isinstance(value, dict):
            return Window.model_validate(value)
        if isinstance(value, Text) and not value.secret and value == "global":
            return Window.model_construct(global_=True)
        raise wanted(value, self.wanted, self._longer(value))

    def _longer(self, value: object) -> str:
        if not isinstance(value, Text) or value.secret:
            return ""
        for key, each in (("tumble", length), ("count", count)):
            try:
                each.read(value)
            except ValueError:
                continue
            return f"write window: {{{key}: {value}}}"
        return f"write window: {{{value}: ...}}" if value in SHAPES else ""


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


Windowed = Annotated[Window, WindowReading()]
