"""The clause `join`: two inputs, by what their rows meet, and how far apart in time.

What only makes sense beside something else is looked at in `join_rules`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field

from headrace.core.pipeline.complaints import Gathered, wanted
from headrace.core.pipeline.fields import attempt
from headrace.core.pipeline.keyed import TimeToLive
from headrace.core.pipeline.lengths import moved
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    Expression,
    Flag,
    Name,
    Reading,
    Reads,
    StreamName,
    Unfit,
    choice,
    stream,
)

JoinType: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]
JOIN_TYPES: tuple[JoinType, ...] = get_args(JoinType)


def _distance(text: Text) -> timedelta:
    sign = -1 if text.startswith("-") else 1
    length = moved.parse(Text(text.removeprefix("-"), text.scalar))
    if not isinstance(length, timedelta):
        raise Unfit
    return sign * length


distance = Reads(
    "a duration such as 5s or -10s",
    _distance,
    {"type": "string", "pattern": r"^-?\d{1,9}(ms|s|m|h|d)$"},
)


class Input(Part):
    """One of the two inputs, with the name that it has in `on` and `select`."""

    from_: StreamName = Field(alias="from", description="The source, step or output to read.")
    as_: Name | None = Field(
        None, alias="as", description="What it is called here; by default as what it reads."
    )


class InputReading(Reading):
    """The name of a stream, or a mapping that also gives it another name."""

    part = Input

    def __init__(self) -> None:
        self.json = stream.json
        self.wanted = "the name of a source or step, or {from: name, as: other}"

    def read(self, value: object) -> Input:
        if isinstance(value, dict):
            return Input.model_validate(value)
        if not isinstance(value, Text):
            raise wanted(value, self.wanted)
        name = stream.read(value)
        assert isinstance(name, Text)
        return Input.model_construct(from_=name, as_=None)


class WithinReading(Reading):
    """How much later the right row may be: two bounds, or one for both directions."""

    def __init__(self) -> None:
        bounds = {"type": "array", "items": distance.json, "minItems": 2, "maxItems": 2}
        self.json = {"oneOf": [distance.json, bounds]}
        self.wanted = "two durations, as in [-10s, 5s]"

    def read(self, value: object) -> tuple[timedelta, timedelta]:
        if isinstance(value, Text):
            one = moved.read(value)
            assert isinstance(one, timedelta)
            return -one, one
        if not isinstance(value, list) or len(value) != 2:
            raise wanted(value, self.wanted)
        gathered = Gathered()
        bounds = [attempt(gathered, distance, bound, at) for at, bound in enumerate(value)]
        gathered.check()
        least, most = bounds
        assert isinstance(least, timedelta) and isinstance(most, timedelta)
        if least > most:
            hint = f"the lesser one first: [{value[1]}, {value[0]}]"
            raise wanted(value[0], f"at most {value[1]}", hint)
        return least, most


class LateTo(Part):
    """Streams for the rows of each input that come too late; by default they are counted."""

    left: Name | None = Field(None, description="Late rows of the left input, as they came.")
    right: Name | None = Field(None, description="Late rows of the right input, as they came.")


class Join(Part):
    """Rows of two inputs side by side. Names of both are written `left_name.column`.

    Rows meet for ever, unless one of `within`, `as_of`, `ttl` or the step's `window` says when.
    """

    left: Annotated[Input, InputReading()] = Field(description="The first input.")
    right: Annotated[Input, InputReading()] = Field(description="The second input.")
    on: Expression = Field(
        description="What must be true: at least one equality between the inputs, and any other "
        "conditions, as in `a.id = b.id and a.price > b.price`. Null equals nothing."
    )
    type: Annotated[JoinType, choice(*JOIN_TYPES)] = Field(
        "inner",
        description="Which rows that meet none go out, with nulls beside them; `semi` and `anti` "
        "have left rows alone, that meet one or none.",
    )
    within: Annotated[tuple[timedelta, timedelta] | None, WithinReading()] = Field(
        None,
        description="How much later than the left row the right one may be, both ends in: "
        "`[-10s, 5s]`; `10s` is `[-10s, 10s]`.",
    )
    as_of: Flag = Field(
        False, description="For each left row the latest right one that is not later than it."
    )
    ttl: TimeToLive | None = Field(
        None, description="Rows further apart than this do not meet, and are forgotten."
    )
    late_to: LateTo | None = Field(
        None, description="Streams for rows that come too late: `{left: name, right: name}`."
    )
