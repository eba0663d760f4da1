"""The document as typed objects, from which the plan is built.

`SourceKeys`, `StepKeys` and `SinkKeys` have the keys that users write; the docs and the JSON schema
are generated from them. `Source`, `Step` and `Sink` add the name, and the connector that was found
among the keys. Every text is a `Text`, which knows its position in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import timedelta
from typing import Annotated, Any, Literal

from headrace.core.pipeline.clauses.broadcast import Broadcast
from headrace.core.pipeline.clauses.iterate import Iterate
from headrace.core.pipeline.clauses.joins import Join
from headrace.core.pipeline.clauses.keyed import (
    Aggregates,
    Apply,
    Dedup,
    Key,
    OverColumns,
    TimeToLive,
    Top,
)
from headrace.core.pipeline.clauses.lookup import Lookup, LookupKeys, LookupTablesReading
from headrace.core.pipeline.clauses.match import MatchClause
from headrace.core.pipeline.clauses.process import Connect, Process
from headrace.core.pipeline.clauses.query import SqlQuery
from headrace.core.pipeline.clauses.windows import WindowClause
from headrace.core.pipeline.connector_spec import ConnectorSpec
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import (
    Assignment,
    ColumnNames,
    Computed,
    ErrorHandling,
    ExplodeClause,
    Names,
    OnError,
    Route,
    Select,
    Types,
)
from headrace.core.pipeline.formats import (
    FORMATS,
    PLANNED_FORMATS,
    CsvOptions,
    DebeziumOptions,
    FormatName,
    JsonOptions,
    ParquetOptions,
)
from headrace.core.pipeline.settings import MAX_KEY_GROUPS, Settings
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.user_files.references import FunctionName, UserFunction
from headrace.core.pipeline.values import (
    ColumnName,
    Duration,
    Expression,
    Flag,
    Name,
    StreamName,
    choice_of,
    whole_number,
)
from headrace.core.process.declarations import Declared
from headrace.core.types.lazy_dataclass import dataclass

PARALLELISM = whole_number(1, MAX_KEY_GROUPS)
DEFAULT_SLOT = "default"
"""The slot of parts that have no other one."""


class Watermark(DocumentModel):
    """The progress of event time: by default, the highest event time seen."""

    delay: Duration = Field(
        timedelta(), description="The watermark is the highest event time seen, less this."
    )
    idle: Duration | None = Field(
        None,
        description="How long a split may have no rows before it stops holding the watermark back.",
    )
    from_: Expression | None = Field(
        None,
        alias="from",
        description="A column, or an expression, that carries the watermark; null means none.",
    )
    python: FunctionName | None = Field(
        None, description="A function that computes the watermark, as in `marks.py:watermark`."
    )
    max_drift: Duration | None = Field(
        None, description="A split this far ahead of the slowest one waits for it."
    )


class TableChanges(DocumentModel):
    """A table, of which the records are changes: each replaces the row with its key, or deletes it.
    [Tables](tables.md#sources) says how a record is written.
    """

    key: ColumnNames = Field(description="The columns that identify a row of the table.")
    sequence: Expression | None = Field(
        None,
        description="A column, or an expression, that orders the changes of a key: a change with a "
        "lower one is passed over. Without it, the changes of a key count in the order in which "
        "they are written.",
    )
    ttl: TimeToLive | None = Field(
        None,
        description="With `sequence`: how long after a deletion an older change of its key is "
        "still passed over; by default for ever.",
    )


class SourceKeys(DocumentModel):
    """An input of the pipeline: one connector, and how its records become rows."""

    format: Annotated[FormatName | None, choice_of(*FORMATS, later=PLANNED_FORMATS)] = Field(
        None, description="The format of records: `json` by default, if the connector has formats."
    )
    json_: JsonOptions | None = Field(None, alias="json", description="Options of `format: json`.")
    csv: CsvOptions | None = Field(None, description="Options of `format: csv`.")
    parquet: ParquetOptions | None = Field(None, description="Options of `format: parquet`.")
    debezium_json: DebeziumOptions | None = Field(
        None, description="Options of `format: debezium_json`."
    )
    columns: Types | None = Field(
        None,
        alias="schema",
        description="The columns and their types. Not for connectors that define their own.",
    )
    table: TableChanges | None = Field(
        None, description="Makes the rows changes of a table, which replace each other by key."
    )
    event_time: Expression | None = Field(
        None,
        description="The event time of a row: a timestamp column, or an expression, as in "
        "`to_timestamp(day, 'yyyy/MM/dd')`.",
    )
    watermark: Watermark | None = Field(None, description="How event time advances.")
    on_error: ErrorHandling = Field(
        OnError(),
        description="The action for a record that cannot be read: `fail`, `skip` (and count), or "
        "`{to: name}`, a stream that steps and sinks can read.",
    )
    slot: Name | None = Field(
        None,
        description="With `workers`: the slot of its subtasks. Subtasks of different slots are in "
        "different workers, if there are enough; `default` without it.",
    )


class Map(DocumentModel):
    """A Python function over batches or rows."""

    python: FunctionName = Field(description="The file, next to the pipeline, and the function.")
    returns: Types = Field(description="The columns that it returns, and their types.")
    mode: Annotated[Literal["batch", "row"], choice_of("batch", "row")] = Field(
        "batch", description="`batch` passes it a DataFrame, `row` one row at a time."
    )
    event_time: ColumnName | None = Field(
        None,
        description="The returned column with the event time, if rows are added or removed.",
    )
    changes: Flag = Field(
        False,
        description="Whether it gets the changes of a table, each as a row with the column "
        "`_change`, which is `insert` or `delete`.",
    )


class StepKeys(DocumentModel):
    """A transformation of rows, which reads like one SELECT.

    Its clauses apply in this order, however they are written: `from` (or `join`), `explode`,
    `where`, `map`, `with`, `lookup`, then `key`, `window` and `aggregate` (or `apply`, `top`,
    `over`, or `process`), or else `dedup`, then `having`, `extend`, `select`, `drop`, `route`,
    `event_time`.
    """

    from_: Names = Field(
        alias="from", description="The input: one name, or several with equal columns (union)."
    )
    sql: SqlQuery | None = Field(
        None,
        description="A query in [SQL](sql.md) over sources and steps, in place of `from` and of "
        "all keys below but `lookups`, `ttl`, `parallelism`, `slot` and `chain`.",
    )
    lookups: Annotated[Mapping[Text, LookupKeys] | None, LookupTablesReading()] = Field(
        None,
        description="With `sql`: tables outside of the pipeline, which the query "
        "[joins by their keys](sql.md#lookups). Each has the keys of `lookup` without `on_miss`, "
        "and `on` is a list.",
    )
    join: Join | None = Field(
        None, description="A join of the rows of two inputs, in place of `from`."
    )
    connect: Connect | None = Field(
        None, description="Two inputs of one `process`, in place of `from`."
    )
    broadcast: Broadcast | None = Field(
        None, description="A join of each row with a small stream, which every subtask holds."
    )
    iterate: Iterate | None = Field(
        None,
        description="The head of a [loop](loops.md), in place of `from`: a row leaves when `until` "
        "holds, else it goes round again.",
    )
    explode: ExplodeClause | None = Field(
        None,
        description="One row per element: `{item: items}` puts the elements of the array `items`, "
        "a column or an expression, into the column `item`; `outer: true` keeps rows whose array "
        "is empty or null. Or one of Spark's generators, as in `posexplode(items) as (at, item)`.",
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
        None,
        description="Columns of a table, added to the rows: of a file, a database or a server.",
    )
    key: Key | None = Field(
        None,
        description="The key by which `aggregate`, `apply`, `top`, `over` or `process` group rows: "
        "a column, a list, or a mapping of names to expressions. Null is a key like any other; "
        "without `key` all rows are one group.",
    )
    window: WindowClause | None = Field(
        None, description="Which rows of a key belong together; without it, all of them."
    )
    aggregate: Aggregates | None = Field(
        None,
        description="A row for each key and window: the key, `window_start` and `window_end`, then "
        "these columns. Without `window`, the row of a key is emitted each time it changes.",
    )
    emit_empty: Flag = Field(
        False,
        description="With `aggregate` of all rows: its row is there before the first input row, "
        "and after the last one is removed, as in SQL: counts are 0, most other aggregates null.",
    )
    apply: Apply | None = Field(
        None,
        description="With `window`: rows that a Python function returns for all rows of a key and "
        "window: the key, `window_start` and `window_end`, then the columns that it returns.",
    )
    top: Top | None = Field(None, description="The first rows of each key and window.")
    over: OverColumns | None = Field(
        None,
        description="Columns added to each row, from the rows of its key in the order of event "
        "time: `row_number()`, `rank()`, `dense_rank()`, `lag(price)`, `lead(price, 2)`, or an "
        "aggregate of a frame, as in `sum(price) over (range interval 1 hour preceding)`.",
    )
    late_to: Name | None = Field(
        None,
        description="With `over`: a stream for rows that arrive after the watermark has passed "
        "them, unchanged; by default they are counted and dropped.",
    )
    ttl: TimeToLive | None = Field(
        None, description="Without `window`: when a key expires; by default never."
    )
    dedup: Dedup | None = Field(None, description="One row per key.")
    process: Process | None = Field(
        None, description="A Python class over the rows of each key, with state and timers."
    )
    match: MatchClause | None = Field(
        None,
        description="A row for each match of a pattern over the rows of each key, in the order of "
        "event time: the key, `match_start` and `match_end`, then the columns of `emit`.",
    )
    having: Expression | None = Field(
        None, description="Keeps the rows of `aggregate` or `match` for which this is true."
    )
    extend: Computed | None = Field(
        None,
        description="Adds or replaces columns, like `with`, after all clauses before: to the rows "
        "of `aggregate`, of a join or a lookup.",
    )
    select: Select | None = Field(
        None, description="The output columns: a list, or a mapping of names to expressions."
    )
    drop: ColumnNames | None = Field(None, description="Columns to remove.")
    route: Route | None = Field(
        None,
        description="Named outputs and their conditions: a row goes to the first output whose "
        "condition is true, read as `step.output`; all other rows go to `step.else`.",
    )
    event_time: Expression | None = Field(
        None,
        description="The event time of the rows, over their columns, if only steps without state "
        "are between their source and this step: the source computes it, for each split. Over "
        "changes, any step may give it.",
    )
    watermark: Watermark | None = Field(
        None, description="With `event_time`: how event time advances, as for a source."
    )
    on_error: ErrorHandling = Field(
        OnError(),
        description="The action for a row on which `map`, `lookup`, `process` or an expression "
        "fails, as `raise_error` does, or of which `match` can make no rule; with `map`, `skip` "
        "and `to` need `mode: row`, with `process` a class with `on_row`.",
    )
    parallelism: Annotated[int | None, PARALLELISM] = Field(
        None, description="Subtasks of this step; by default as in `settings`."
    )
    slot: Name | None = Field(
        None,
        description="With `workers`: the slot of its subtasks, as for a source; without it, the "
        "slot of its inputs if that is one, else `default`.",
    )
    chain: Flag = Field(
        True,
        description="`false` begins a task: rows come over a channel, and what reads this step may "
        "still share its task.",
    )
    trace: Flag = Field(
        False, description="Keep the source, split and position of each row for its error rows."
    )


class SinkKeys(DocumentModel):
    """An output of the pipeline: one connector, and how rows are written."""

    from_: StreamName = Field(alias="from", description="The stream that it writes.")
    format: Annotated[FormatName | None, choice_of(*FORMATS, later=PLANNED_FORMATS)] = Field(
        None, description="The format of rows: `json` by default, if the connector has formats."
    )
    json_: JsonOptions | None = Field(None, alias="json", description="Options of `format: json`.")
    csv: CsvOptions | None = Field(None, description="Options of `format: csv`.")
    parallelism: Annotated[int | None, PARALLELISM] = Field(
        None, description="Subtasks of this sink; by default as in `settings`."
    )
    slot: Name | None = Field(
        None,
        description="With `workers`: the slot of its subtasks, as for a source; without it, the "
        "slot of its input.",
    )
    chain: Flag = Field(
        True, description="`false` gives it a task of its own: rows come over a channel."
    )


class Source(SourceKeys):
    """A source, with its connector and options. `keys_at` has each key with its position."""

    loader_fields = ("name", "connector", "options", "keys_at")
    name: Text
    connector: ConnectorSpec
    options: Any
    keys_at: Mapping[str, Text]


class Step(StepKeys):
    """A step. `keys_at` has each key with its position."""

    loader_fields = ("name", "keys_at", "input_streams", "states", "lookups")
    lookup: Lookup | None = None
    lookups: Mapping[Text, Lookup] | None = None
    name: Text
    keys_at: Mapping[str, Text]
    input_streams: tuple[Text, ...]
    """The streams that it reads: those of `from`, or the left and the right input."""
    states: Mapping[str, Declared]
    """The states and timers that the class of `process` declares."""


class Sink(SinkKeys):
    """A sink, with its connector and options. `keys_at` has each key with its position."""

    loader_fields = ("name", "connector", "options", "keys_at")
    name: Text
    connector: ConnectorSpec
    options: Any
    keys_at: Mapping[str, Text]


@dataclass(frozen=True, slots=True)
class WorkerChoice:
    """A number of workers, and the reason for it."""

    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Pipeline:
    """All valid parts of a document."""

    name: Text
    settings: Settings = field(default_factory=Settings)
    sources: Mapping[str, Source] = field(default_factory=dict)
    steps: Mapping[str, Step] = field(default_factory=dict)
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    worker_choice: WorkerChoice | None = None
    """The number of workers that was chosen for `workers: auto`."""
    follows_workers: bool = False
    """Whether the parallelism was not set, and is the number of workers."""


__all__ = [
    "DEFAULT_SLOT",
    "Assignment",
    "Map",
    "Pipeline",
    "Sink",
    "SinkKeys",
    "Source",
    "SourceKeys",
    "Step",
    "StepKeys",
    "UserFunction",
    "Watermark",
    "WorkerChoice",
]
