"""The clause `process`: a user-defined class over the rows of each key, with state and timers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from headrace.core.pipeline.complaints import KEY, Gathered, wanted
from headrace.core.pipeline.fields import Columns, ColumnTypes, Types, attempt, output
from headrace.core.pipeline.functions import ClassName
from headrace.core.pipeline.joins import LateTo
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import Json, Name, Reading, StreamName, choice

HABITS: Mapping[str, str] = {
    **dict.fromkeys(("class", "function", "code", "file"), "python"),
    **dict.fromkeys(("schema", "columns", "output"), "returns"),
    **dict.fromkeys(("side_outputs", "named_outputs"), "outputs"),
    **dict.fromkeys(("side_output", "late_output"), "late_to"),
    **dict.fromkeys(("sort", "ordering"), "order"),
}


class OutputsReading(Reading):
    """The reading of a mapping of outputs to their columns."""

    def __init__(self) -> None:
        self.wanted = "outputs and their columns, as in {audit: {card: string}}"
        self.json: Json = {
            "type": "object",
            "additionalProperties": ColumnTypes().json,
            "propertyNames": {"not": {"const": "else"}},
            "minProperties": 1,
        }

    def read(self, value: object) -> tuple[tuple[Text, Columns], ...]:
        if not isinstance(value, dict) or not value:
            raise wanted(value, self.wanted)
        gathered, found = Gathered(), list[tuple[Text, Columns]]()
        for key, columns in value.items():
            if gathered.full:
                break
            named = attempt(gathered, output, key, key, KEY)
            read = attempt(gathered, ColumnTypes(), columns, key)
            if isinstance(named, Text) and isinstance(read, Columns):
                found.append((named, read))
        gathered.check()
        return tuple(found)


Outputs = Annotated[tuple[tuple[Text, Columns], ...], OutputsReading()]


class Connect(Part):
    """Two inputs of one class for `process`, which has `on_left` and `on_right`.

    Both have the columns of the step's `key`; the rest of their columns may differ.
    """

    left: StreamName = Field(description="The input whose rows go to `on_left`.")
    right: StreamName = Field(description="The input whose rows go to `on_right`.")
    late_to: LateTo | None = Field(
        None, description="Streams for rows that arrive too late: `{left: name, right: name}`."
    )


class Process(Part):
    """A user-defined class over the rows of each key, with state and timers.

    The class is written with `headrace.core.process`, and tested with `headrace.core.testing`.
    """

    habits = HABITS
    python: ClassName = Field(description="The file, next to the pipeline, and the class.")
    returns: Types = Field(description="The columns of the rows that it emits, and their types.")
    outputs: Outputs | None = Field(
        None, description="Further outputs with columns of their own, read as `step.output`."
    )
    order: Annotated[Literal["event_time", "arrival"], choice("event_time", "arrival")] = Field(
        "event_time",
        description="The order in which it receives rows: that of `event_time`, for which they "
        "wait until the watermark has passed them, or that of their `arrival`.",
    )
    late_to: Name | None = Field(
        None,
        description="A stream for rows that arrive after the watermark has passed them, "
        "unchanged; by default they are counted and dropped.",
    )
