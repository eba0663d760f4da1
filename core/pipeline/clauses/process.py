"""The clause `process`: a user-defined class over the rows of each key, with state and timers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from headrace.core.pipeline.clauses.joins import LateTo
from headrace.core.pipeline.diagnostics import KEY, ValueProblemCollector, make_expected_error
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import (
    ColumnTypesReading,
    DeclaredColumns,
    Types,
    output,
    read_or_collect,
)
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.user_files.references import ClassName
from headrace.core.pipeline.values import FieldReading, Flag, Json, Name, StreamName, choice_of

PROCESS_KEY_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("class", "function", "code", "file"), "python"),
    **dict.fromkeys(("schema", "columns", "output"), "returns"),
    **dict.fromkeys(("side_outputs", "named_outputs"), "outputs"),
    **dict.fromkeys(("side_output", "late_output"), "late_to"),
    **dict.fromkeys(("sort", "ordering"), "order"),
}


class OutputsReading(FieldReading):
    """The reading of a mapping of outputs to their columns."""

    def __init__(self) -> None:
        self.wanted = "outputs and their columns, as in {audit: {card: string}}"
        self.json: Json = {
            "type": "object",
            "additionalProperties": ColumnTypesReading().json,
            "propertyNames": {"not": {"const": "else"}},
            "minProperties": 1,
        }

    def read(self, value: object) -> tuple[tuple[Text, DeclaredColumns], ...]:
        if not isinstance(value, dict) or not value:
            raise make_expected_error(value, self.wanted)
        gathered, outputs = ValueProblemCollector(), list[tuple[Text, DeclaredColumns]]()
        for key, columns in value.items():
            if gathered.is_full:
                break
            named = read_or_collect(gathered, output, key, key, KEY)
            read = read_or_collect(gathered, ColumnTypesReading(), columns, key)
            if isinstance(named, Text) and isinstance(read, DeclaredColumns):
                outputs.append((named, read))
        gathered.raise_if_any()
        return tuple(outputs)


Outputs = Annotated[tuple[tuple[Text, DeclaredColumns], ...], OutputsReading()]


class Connect(DocumentModel):
    """Two inputs of one class for `process`, which has `on_left` and `on_right`.

    Both have the columns of the step's `key`; the rest of their columns may differ.
    """

    left: StreamName = Field(description="The input whose rows go to `on_left`.")
    right: StreamName = Field(description="The input whose rows go to `on_right`.")
    late_to: LateTo | None = Field(
        None, description="Streams for rows that arrive too late: `{left: name, right: name}`."
    )


class Process(DocumentModel):
    """A user-defined class over the rows of each key, with state and timers.

    The class is a subclass of `headrace.Process`, and tested with `headrace.Trial`.
    """

    key_aliases = PROCESS_KEY_ALIASES
    python: ClassName = Field(description="The file, next to the pipeline, and the class.")
    returns: Types = Field(description="The columns of the rows that it emits, and their types.")
    outputs: Outputs | None = Field(
        None, description="Further outputs with columns of their own, read as `step.output`."
    )
    order: Annotated[Literal["event_time", "arrival"], choice_of("event_time", "arrival")] = Field(
        "event_time",
        description="The order in which it receives rows: that of `event_time`, for which they "
        "wait until the watermark has passed them, or that of their `arrival`.",
    )
    changes: Flag = Field(
        False,
        description="Whether it receives the changes of a table, each as a row with the column "
        "`_change`, which is `insert` or `delete`; with `order: arrival`.",
    )
    late_to: Name | None = Field(
        None,
        description="A stream for rows that arrive after the watermark has passed them, "
        "unchanged; by default they are counted and dropped.",
    )
