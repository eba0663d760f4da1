"""The clause `join`: two inputs, the condition by which rows match, and their distance in time.

The rules for keys that go together are in `join_rules`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, TypeAlias, get_args

from headrace.core.pipeline.clauses.keyed import TimeToLive
from headrace.core.pipeline.diagnostics import ValueProblemCollector, make_expected_error
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import read_or_collect
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    Expression,
    FieldReading,
    Flag,
    InvalidScalar,
    Name,
    ScalarReading,
    StreamName,
    bounded_duration,
    choice_of,
    stream,
)

JoinType: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]
JOIN_TYPES: tuple[JoinType, ...] = get_args(JoinType)


def _parse_distance(text: Text) -> timedelta:
    sign = -1 if text.startswith("-") else 1
    length = bounded_duration.parse(Text(text.removeprefix("-"), text.scalar))
    if not isinstance(length, timedelta):
        raise InvalidScalar
    return sign * length


distance_reading = ScalarReading(
    "a duration such as 5s or -10s",
    _parse_distance,
    {"type": "string", "pattern": r"^-?\d{1,9}(ms|s|m|h|d)$"},
)


class JoinInputKeys(DocumentModel):
    """One of the two inputs, and its name in `on` and `select`."""

    from_: StreamName = Field(alias="from", description="The source, step or output to read.")
    as_: Name | None = Field(
        None, alias="as", description="Its name in this step; by default the name in `from`."
    )


class InputReading(FieldReading):
    """The reading of a stream's name, or of a mapping that also gives it another name."""

    part = JoinInputKeys

    def __init__(self) -> None:
        self.json = stream.json
        self.wanted = "the name of a source or step, or {from: name, as: other}"

    def read(self, value: object) -> JoinInputKeys:
        if isinstance(value, dict):
            return JoinInputKeys.model_validate(value)
        if not isinstance(value, Text):
            raise make_expected_error(value, self.wanted)
        name = stream.read(value)
        assert isinstance(name, Text)
        return JoinInputKeys.model_construct(from_=name, as_=None)


class WithinReading(FieldReading):
    """The reading of the time between left and right rows: two bounds, or one for both sides."""

    def __init__(self) -> None:
        bounds = {"type": "array", "items": distance_reading.json, "minItems": 2, "maxItems": 2}
        self.json = {"oneOf": [distance_reading.json, bounds]}
        self.wanted = "two durations, as in [-10s, 5s]"

    def read(self, value: object) -> tuple[timedelta, timedelta]:
        if isinstance(value, Text):
            one = bounded_duration.read(value)
            assert isinstance(one, timedelta)
            return -one, one
        if not isinstance(value, list) or len(value) != 2:
            raise make_expected_error(value, self.wanted)
        gathered = ValueProblemCollector()
        bounds = [
            read_or_collect(gathered, distance_reading, bound, at) for at, bound in enumerate(value)
        ]
        gathered.raise_if_any()
        least, most = bounds
        assert isinstance(least, timedelta) and isinstance(most, timedelta)
        if least > most:
            hint = f"the smaller one first: [{value[1]}, {value[0]}]"
            raise make_expected_error(value[0], f"at most {value[1]}", hint)
        return least, most


class LateTo(DocumentModel):
    """Streams for the late rows of each input; by default late rows are counted and dropped."""

    left: Name | None = Field(None, description="Late rows of the left input, unchanged.")
    right: Name | None = Field(None, description="Late rows of the right input, unchanged.")


class Join(DocumentModel):
    """A join of the rows of two inputs. A column that both have is written `left_name.column`.

    Rows match without a limit in time, unless one of `within`, `as_of`, `ttl` or the step's
    `window` sets one.
    """

    left: Annotated[JoinInputKeys, InputReading()] = Field(description="The first input.")
    right: Annotated[JoinInputKeys, InputReading()] = Field(description="The second input.")
    on: Expression = Field(
        description="The join condition: at least one equality between the inputs, and any other "
        "conditions, as in `a.id = b.id and a.price > b.price`. Null equals nothing."
    )
    type: Annotated[JoinType, choice_of(*JOIN_TYPES, synonyms={"outer": "full"})] = Field(
        "inner",
        description="Which rows without a match are emitted, with nulls for the other input; "
        "`semi` and `anti` emit only left rows, those with a match or those without.",
    )
    within: Annotated[tuple[timedelta, timedelta] | None, WithinReading()] = Field(
        None,
        description="How much later than the left row the right row may be, bounds included: "
        "`[-10s, 5s]`; `10s` means `[-10s, 10s]`.",
    )
    as_of: Flag = Field(
        False,
        description="Each left row matches the latest right row that is not later than it. The "
        "right input may be a table: then it matches the version that was valid at its time.",
    )
    ttl: TimeToLive | None = Field(
        None, description="Rows further apart than this do not match, and are dropped."
    )
    emit: Annotated[Literal["when_final", "at_once"], choice_of("when_final", "at_once")] = Field(
        "when_final",
        description="When a row without a match is emitted: when no match can come any more, or at "
        "once; then it is removed when a match comes, and the output is a changelog.",
    )
    late_to: LateTo | None = Field(
        None, description="Streams for rows that arrive too late: `{left: name, right: name}`."
    )
