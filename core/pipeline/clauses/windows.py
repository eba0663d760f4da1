"""The clause `window`: the shape of windows, their trigger and their evictor."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from headrace.core.pipeline.diagnostics import make_expected_error
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import ColumnNames
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.user_files.references import ClassName, FunctionName
from headrace.core.pipeline.values import (
    BoundedDuration,
    Count,
    FieldReading,
    Flag,
    InvalidScalar,
    Name,
    NonzeroDuration,
    ScalarReading,
    TimeDomain,
    count,
    duration,
    nonzero_duration,
)


def _parse_every(text: Text) -> timedelta | int:
    try:
        number = count.parse(text)
    except InvalidScalar:
        long = nonzero_duration.parse(text)
        assert isinstance(long, timedelta)
        return long
    assert isinstance(number, int)
    return number


def _parse_true(text: Text) -> bool:
    if text != "true":
        raise InvalidScalar
    return True


every_reading = ScalarReading(
    "a duration such as 1s, or with count a number of rows",
    _parse_every,
    {"anyOf": [duration.json, count.json]},
)
true_reading = ScalarReading("true", _parse_true, {"const": True})


SHAPE_EXAMPLES = {
    "tumble": "{tumble: 1m}",
    "slide": "{slide: 1m, every: 10s}",
    "session": "{session: 30s}",
    "count": "{count: 100}",
    "cumulate": "{cumulate: 1h, every: 10m}",
    "global": "{global: true}",
}
SHAPES = tuple(SHAPE_EXAMPLES)


class Trigger(DocumentModel):
    """The condition on which windows fire before their end: at intervals, after a number of rows of
    a key, or when a user-defined class decides. [Windows](windows.md) has an example.
    """

    one_of = ("every", "count", "python")
    every: NonzeroDuration | None = Field(None, description="The interval at which windows fire.")
    count: Count | None = Field(
        None, description="The number of new rows of a key after which a window fires."
    )
    time: TimeDomain = Field(
        "event", description="The time of `every`: event time, or `processing`, the wall clock."
    )
    python: ClassName | None = Field(
        None,
        description="The file, next to the pipeline, and a class with `on_row`, and `on_timer` if "
        "it has timers.",
    )
    of: ColumnNames | None = Field(
        None, description="The columns that are passed to `on_row`; by default all."
    )
    at_end: Flag = Field(
        True,
        description="Whether a window also fires at its end; if not, rows that came since it last "
        "fired are in no result.",
    )


class Evict(DocumentModel):
    """The selection of the rows of a key and window that are used: the last, those near the last,
    or those that a user-defined function returns. [Windows](windows.md) has an example.
    """

    one_of = ("last", "within", "python")
    last: Count | None = Field(None, description="A number of rows: the latest in event time.")
    within: NonzeroDuration | None = Field(
        None, description="A duration: rows at most this long before the latest in event time."
    )
    python: FunctionName | None = Field(
        None, description="The file, next to the pipeline, and a function that returns some rows."
    )
    of: ColumnNames | None = Field(
        None, description="The columns that are passed to the function; by default all."
    )


WINDOW_KEY_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("size", "length", "duration", "tumbling", "fixed"), "tumble"),
    **dict.fromkeys(("hop", "hopping", "sliding"), "slide"),
    **dict.fromkeys(("step", "advance", "period"), "every"),
    **dict.fromkeys(("gap", "sessions"), "session"),
    **dict.fromkeys(("rows", "last_rows"), "count"),
    **dict.fromkeys(("grace", "allowed_lateness", "late"), "lateness"),
    **dict.fromkeys(("side_output", "late_output"), "late_to"),
    **dict.fromkeys(("evictor", "keep"), "evict"),
}


class Window(DocumentModel):
    """The grouping of rows into windows: one of tumble, slide, session, count, cumulate and global.

    Windows of time begin at multiples of their length (of `every`, if they slide) since 1970,
    shifted by `offset`; a row at the end of a window belongs to the next one.
    """

    one_of = SHAPES
    key_aliases = WINDOW_KEY_ALIASES
    tumble: NonzeroDuration | None = Field(None, description="Adjacent windows of this length.")
    slide: NonzeroDuration | None = Field(
        None, description="Windows of this length, one beginning each `every`; they may overlap."
    )
    session: NonzeroDuration | None = Field(
        None,
        description="Windows that end when a key has had no rows for this long (the gap).",
    )
    count: Count | None = Field(
        None,
        description="Windows of this number of rows of a key, by arrival; with `every`, they slide "
        "by that number of rows.",
    )
    cumulate: NonzeroDuration | None = Field(
        None, description="As `tumble`, but fires each `every` with all rows since its start."
    )
    global_: Annotated[bool | None, true_reading] = Field(
        None,
        alias="global",
        description="One window of all rows, which fires at the end of the input and by `trigger`; "
        "`window: global` is short for this.",
    )
    every: Annotated[timedelta | int | None, every_reading] = Field(
        None, description="How far apart windows begin (`slide`, `count`) or fire (`cumulate`)."
    )
    offset: BoundedDuration = Field(
        timedelta(), description="How much later windows of time begin."
    )
    lateness: BoundedDuration = Field(
        timedelta(),
        description="How long after its end a window accepts rows, and fires again with them.",
    )
    late_to: Name | None = Field(
        None,
        description="A stream for rows that arrive too late, unchanged; by default they are "
        "counted and dropped.",
    )
    time: TimeDomain = Field(
        "event",
        description="The time that assigns rows to windows: `event` time, or `processing`, the "
        "wall clock on arrival.",
    )
    trigger: Trigger | None = Field(
        None, description="When windows fire before their end, each time with their whole row."
    )
    accumulate: Flag = Field(
        True, description="Whether a window that fired keeps its rows for its next firing."
    )
    evict: Evict | None = Field(
        None, description="Which of a window's rows are used when it fires; by default all."
    )


class WindowReading(FieldReading):
    """The reading of a mapping, or of `global`."""

    part = Window

    def __init__(self) -> None:
        self.json = {"const": "global"}
        self.wanted = f"a mapping with one of {', '.join(SHAPES)}"

    def read(self, value: object) -> Window:
        if isinstance(value, dict):
            return Window.model_validate(value)
        if isinstance(value, Text) and not value.secret and value == "global":
            return Window.model_construct(global_=True)
        raise make_expected_error(value, self.wanted, self._suggest(value))

    def _suggest(self, value: object) -> str:
        if not isinstance(value, Text) or value.secret:
            return ""
        for key, each in (("tumble", nonzero_duration), ("count", count)):
            try:
                each.read(value)
            except ValueError:
                continue
            return f"write window: {{{key}: {value}}}"
        return f"write window: {SHAPE_EXAMPLES[value]}" if value in SHAPES else ""


WindowClause = Annotated[Window, WindowReading()]
