"""The document as typed objects: what the plan is made from.

`SourceKeys`, `StepKeys` and `SinkKeys` are what users write, and what the docs and the JSON schema
are generated from; `Source`, `Step` and `Sink` add the name, and the connector that was found among
the keys. Every text is a `Text`: it knows its place in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.core.connector import Connector
from headrace.core.pipeline.broadcast import Broadcast
from headrace.core.pipeline.fields import (
    Assignment,
    ColumnNames,
    Computed,
    ErrorHandling,
    Exploded,
    Names,
    OnError,
    Route,
    Select,
    Types,
)
from headrace.core.pipeline.formats import (
    FORMATS,
    LATER_FORMATS,
    CsvOptions,
    FormatName,
    JsonOptions,
)
from headrace.core.pipeline.functions import Function, FunctionName
from headrace.core.pipeline.joins import Join
from headrace.core.pipeline.keyed import Aggregates, Apply, Dedup, Key, TimeToLive, Top
from headrace.core.pipeline.lookup import Lookup, LookupKeys
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.process import Connect, Process
from headrace.core.pipeline.settings import MAX_KEY_GROUPS, Settings
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    ColumnName,
    Duration,
    Expression,
    Flag,
    StreamName,
    choice,
    whole,
)
from headrace.core.pipeline.windows import Windowed
from headrace.core.process.declared import Declared

PARALLELISM = whole(1, MAX_KEY_GROUPS)


class Watermark(Part):
    """How far event time has come: by default, the highest time seen."""

    delay: Duration = Field(
        timedelta(), description="The watermark is the highest event time seen, less this."
    )
    idle: Duration | None = Field(
        None, description="A split without rows for so long no longer holds the watermark back."
    )
    from_: ColumnName | None = Field(
        None, alias="from", description="A column that carries the watermark; null means none."
    )
    python: FunctionName | None = Field(
        None, description="A function that makes the watermark, as in `marks.py:watermark`."
    )
    max_drift: Duration | None = Field(
        None, description="A split this far ahead of the slowest one waits for it."
    )


class SourceKeys(Part):
    """Where rows come from: one connector, and how what it reads becomes rows."""

    format: Annotated[FormatName | None, choice(*FORMATS, later=LATER_FORMATS)] = Field(
        None, description="How records are written: `json` by default, where a connector has any."
    )
    json_: JsonOptions | None = Field(None, alias="json", description="Options of `format: json`.")
    csv: CsvOptions | None = Field(None, description="Options of `format: csv`.")
    columns: Types | None = Field(
        None,
        alias="schema",
        description="The columns and their types. Not for connectors that bring their own.",
    )
    event_time: ColumnName | None = Field(
        None, description="The column (a timestamp) that says when a row happened."
    )
    watermark: Watermark | None = Field(None, description="How event time advances.")
    on_error: ErrorHandling = Field(
        OnError(),
        description="What becomes of a record that cannot be read: `fail`, `skip` (and count), or "
        "`{to: name}`, a stream that steps and sinks can read.",
    )


class Map(Part):
    """A user's Python function over batches or rows."""

    python: FunctionName = Field(description="The file, beside the pipeline, and the function.")
    returns: Types = Field(description="The columns that it returns, and their types.")
    mode: Annotated[Literal["batch", "row"], choice("batch", "row")] = Field(
        "batch", description="`batch` hands it a DataFrame, `row` one row at a time."
    )
    event_time: ColumnName | None = Field(
        None, description="The returned column that is the event time, if rows come or go."
    )


class StepKeys(Part):
    """One step, read like one SELECT.

    Its clauses act in this order, however they are written: `from` (or `join`), `explode`,
    `where`, `map`, `with`, `lookup`, then `key`, `window` and `aggregate` (or `apply`, `top`, or
    `process`) or else `dedup`, `having`, `select`, `drop`, `route`.
    """

    from_: Names = Field(
        alias="from", description="What it reads: one name, or several with equal columns (union)."
    )
    join: Join | None = Field(
        None, description="Rows of two inputs side by side; it stands in the place of `from`."
    )
    connect: Connect | None = Field(
        None, description="Two inputs of one `process`, in the place of `from`."
    )
    broadcast: Broadcast | None = Field(
        None, description="Each row beside those of a small stream, which every subtask keeps."
    )
    explode: Exploded | None = Field(
        None,
        description="One row an element: `{item: items}` puts the elements of the array `items` "
        "into the column `item`; `outer: true` keeps rows whose array is empty or null.",
    )
    where: Expression | None = Field(None, description="Keeps the rows for which this is true.")
    map: Map | None = Field(None, description="A Python function over the rows.")
    with_: Computed | None = Field(
        None,
        alias="with",
        description="Adds or replaces columns. Each expression reads the columns before it, not "
        "each other.",
    )
    lookup: LookupKeys | None = Field(
        None, description="Columns of a table beside the rows: a file's, a database's, a server's."
    )
    key: Key | None = Field(
        None,
        description="What `aggregate`, `apply`, `top` or `process` groups rows by: a column, a "
        "list, or a mapping of names to expressions. Null is a key like any other; without `key` "
        "all rows are one group.",
    )
    window: Windowed | None = Field(
        None, description="Which rows of a key belong together; without it, all of them."
    )
    aggregate: Aggregates | None = Field(
        None,
        description="A row for each key and window: the key, `window_start` and `window_end`, then "
        "these columns. Without `window`, the row of a key is put out each time it changes.",
    )
    apply: Apply | None = Field(
        None,
        description="With `window`: rows that a Python function makes of all rows of a key and "
        "window: the key, `window_start` and `window_end`, then the columns that it returns.",
    )
    top: Top | None = Field(None, description="The first rows of each key and window.")
    ttl: TimeToLive | None = Field(
        None, description="Without `window`: when a key is forgotten; by default never."
    )
    dedup: Dedup | None = Field(None, description="One row a key.")
    process: Process | None = Field(
        None, description="A Python class over the rows of each key, with state and timers."
    )
    having: Expression | None = Field(
        None, description="Keeps the rows of `aggregate` for which this is true."
    )
    select: Select | None = Field(
        None, description="The columns that go on: a list, or a mapping of names to expressions."
    )
    drop: ColumnNames | None = Field(None, description="Columns that do not go on.")
    route: Route | None = Field(
        None,
        description="Named outputs and their conditions: a row goes to the first that is true, "
        "read as `step.output`; the rest are `step.else`.",
    )
    on_error: ErrorHandling = Field(
        OnError(),
        description="What becomes of a row on which `map`, `lookup` or `process` fails; with "
        "`map`, `skip` and `to` need `mode: row`, with `process` a class with `on_row`.",
    )
    parallelism: Annotated[int | None, PARALLELISM] = Field(
        None, description="Subtasks of this step; by default as in `settings`."
    )
    trace: Flag = Field(
        False, description="Keep source, split and position of each row for its error rows."
    )


class SinkKeys(Part):
    """Where rows go: one connector, and how rows are written."""

    from_: StreamName = Field(alias="from", description="What it writes.")
    format: Annotated[FormatName | None, choice(*FORMATS, later=LATER_FORMATS)] = Field(
        None, description="How rows are written: `json` by default, where a connector has any."
    )
    json_: JsonOptions | None = Field(None, alias="json", description="Options of `format: json`.")
    csv: CsvOptions | None = Field(None, description="Options of `format: csv`.")
    parallelism: Annotated[int | None, PARALLELISM] = Field(
        None, description="Subtasks of this sink; by default as in `settings`."
    )


class Source(SourceKeys):
    """A source, with what its connector key said. `keys_at` has each key with its place."""

    added = ("name", "connector", "options", "keys_at")
    name: Text
    connector: Connector
    options: Any
    keys_at: Mapping[str, Text]


class Step(StepKeys):
    """A step. `keys_at` has each key with its place."""

    added = ("name", "keys_at", "reads", "states")
    lookup: Lookup | None = None
    name: Text
    keys_at: Mapping[str, Text]
    reads: tuple[Text, ...]
    """The streams that it reads: those of `from`, or the left and the right one."""
    states: Mapping[str, Declared]
    """The states and timers that the class of `process` declares."""


class Sink(SinkKeys):
    """A sink, with what its connector key said. `keys_at` has each key with its place."""

    added = ("name", "connector", "options", "keys_at")
    name: Text
    connector: Connector
    options: Any
    keys_at: Mapping[str, Text]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """All that is sound in a document."""

    name: Text
    settings: Settings = field(default_factory=Settings)
    sources: Mapping[str, Source] = field(default_factory=dict)
    steps: Mapping[str, Step] = field(default_factory=dict)
    sinks: Mapping[str, Sink] = field(default_factory=dict)


__all__ = [
    "Assignment",
    "Function",
    "Map",
    "Pipeline",
    "Sink",
    "SinkKeys",
    "Source",
    "SourceKeys",
    "Step",
    "StepKeys",
    "Watermark",
]
