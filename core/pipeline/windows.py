"""The clause `window`: which rows belong together, when they fire, which of them are seen."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import Field

from headrace.core.pipeline.complaints import wanted
from headrace.core.pipeline.fields import ColumnNames
from headrace.core.pipeline.functions import ClassName, FunctionName
from headrace.core.pipeline.lengths import Length, Moved, Time, length
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import Count, Flag, Name, Reading, Reads, Unfit, count, duration


def _every(text: Text) -> timedelta | int:
    try:
        number = count.parse(text)
    except Unfit:
        long = length.parse(text)
        assert isinstance(long, timedelta)
        return long
    assert isinstance(number, int)
    return number


def _yes(text: Text) -> bool:
    if text != "true":
        raise Unfit
    return True


step_of = Reads(
    "a duration such as 1s, or with count a number of rows",
    _every,
    {"anyOf": [duration.json, count.json]},
)
yes = Reads("true", _yes, {"const": True})


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


Windowed = Annotated[Window, WindowReading()]
