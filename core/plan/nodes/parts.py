"""Sources, steps and sinks, the edges between them, and the tasks that run them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Literal, TypeAlias

from headrace.core.api.sources import DEFAULT_MAX_RECORD
from headrace.core.expressions.typed import DEFAULT_MAX_VALUE, TypedExpression
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.model import DEFAULT_SLOT, Watermark
from headrace.core.plan.nodes.joins import Join, TwoSided
from headrace.core.plan.nodes.keyed import KeyedOperation, Process, ProcessBody
from headrace.core.plan.nodes.loops import Loop
from headrace.core.plan.nodes.matches import Match
from headrace.core.plan.nodes.matching import ConnectedMatch, RuleMatch
from headrace.core.plan.nodes.rows import (
    ChangeColumn,
    ComputedColumn,
    Explode,
    Filter,
    Lookup,
    Map,
    Project,
    Route,
    RowTime,
    WeightConversion,
)
from headrace.core.plan.nodes.streams import Stream
from headrace.core.types.change_columns import CHANGE
from headrace.core.types.data_types import BIGINT, BOOLEAN, STRING, Field, Schema, Struct
from headrace.core.types.elements import DELETE
from headrace.core.types.lazy_dataclass import dataclass

Operation: TypeAlias = (
    Explode
    | Filter
    | Project
    | Map
    | Lookup
    | Route
    | ChangeColumn
    | WeightConversion
    | RowTime
    | Loop
    | KeyedOperation
    | TwoSided
)


def find_process_body(operation: Operation) -> ProcessBody | None:
    """Return the user-defined class that an operation runs, if it runs one."""
    match operation:
        case Process(body=body) | Join(matching=ConnectedMatch(body=body)):
            return body
    return None


def find_match(operation: Operation) -> Match | None:
    """Return the patterns that an operation looks for: one, or what the rules have in common."""
    match operation:
        case Match():
            return operation
        case Join(matching=RuleMatch(match=common)):
            return common
    return None


Exchange: TypeAlias = Literal["forward", "hash", "rebalance", "broadcast"]


EVENT_TIME_VALUE, WATERMARK_VALUE = "__event_time", "__watermark"
"""The hidden columns of a source's computed event time and watermark, while rows are read."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream to a consumer, and the distribution of its rows over the consumer's subtasks."""

    stream: str
    producer: str
    consumer: str
    exchange: Exchange
    key: tuple[ComputedColumn, ...] = ()
    side: int = 0
    """The input of a step with two inputs: 0 is the left one, 1 the right one. Of a union that
    stores rows, 1 are the inputs of these."""
    is_feedback: bool = False
    """Whether its rows come back to the head of a loop; it is no input of that step, whose side is
    1 for them."""


@dataclass(frozen=True, slots=True)
class Format:
    """A record format, with the options that were given for it."""

    name: str
    options: DocumentModel | None

    def __str__(self) -> str:
        return self.name


CHANGE_COLUMNS = {CHANGE: STRING, DELETE: BOOLEAN}
"""The columns of a table's records that say what a record does; a record may lack both."""


_TEXTS = ("version", "connector", "name", "snapshot", "db", "sequence", "schema", "table", "txId")
_MORE_TEXTS = ("gtid", "file", "query", "change_lsn", "commit_lsn", "scn", "commit_scn")
_NUMBERS = ("lsn", "xmin", "pos", "row", "server_id", "thread", "event_serial_no", "ord")
_TIMES = ("ts_ms", "ts_us", "ts_ns")

DEBEZIUM_COLUMNS = (
    Field("op", STRING),
    Field("ts_ms", BIGINT),
    Field(
        "source",
        Struct(
            (
                *(Field(name, STRING) for name in (*_TEXTS, *_MORE_TEXTS)),
                *(Field(name, BIGINT) for name in (*_NUMBERS, *_TIMES)),
            )
        ),
    ),
)
"""The columns of a Debezium message besides those of its row; only its source can read them."""


IS_OLD_ROW = "__old_row"
"""The hidden column of a table's records, while they are read: whether a record only repeats the
row before an update. Such a record has no event time of its own."""


BEFORE_PREFIX = "__before."
"""The prefix of the columns with the key that a row had before a change."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """The table whose changes a source reads."""

    key: tuple[str, ...]
    """The columns that identify a row."""
    sequence: ComputedColumn | None = None
    """The value that orders the changes of a key; None: their order in a split does."""
    metadata: frozenset[str] = frozenset()
    """The columns of a record that are no columns of a row."""
    has_versions: bool = False
    """Whether a reader needs the event time of every change: each is a version of its row."""

    def remove_metadata(self, schema: Schema) -> Schema:
        """Return the columns of rows among those of records."""
        return Schema(tuple(field for field in schema if field.name not in self.metadata))


@dataclass(frozen=True, slots=True)
class Source:
    """An input of the plan.

    `columns` are the decoded columns: those that the plan needs, and those in
    `not_null_columns`, which the user declared `not null`.
    """

    name: str
    connector: str
    options: DocumentModel
    format: Format | None
    schema: Schema
    decoded_columns: tuple[str, ...]
    not_null_columns: frozenset[str]
    event_time: str | None
    watermark: Watermark | None
    on_error: str
    outputs: tuple[Stream, ...]
    parallelism: int
    max_record: int = DEFAULT_MAX_RECORD
    """The largest record, in bytes."""
    max_value: int = DEFAULT_MAX_VALUE
    """The largest value, in bytes, that a growing call in its options makes."""
    times: tuple[ComputedColumn, ...] = ()
    """The computed event time, watermark and sequence, by their hidden columns."""
    time_condition: TypedExpression | None = None
    """The rows that have an event time, if not all of them have one."""
    time_step: str = ""
    """The step that gives the event time, if the source does not."""
    slot: str = DEFAULT_SLOT
    """The name of the slots that its subtasks are placed in."""
    table: SourceTable | None = None
    """The table whose changes its records are; None: they are rows."""

    @property
    def watermark_column(self) -> str | None:
        """The column that carries the watermark."""
        if self.watermark is None or self.watermark.from_ is None:
            return None
        computed = any(column.name == WATERMARK_VALUE for column in self.times)
        return WATERMARK_VALUE if computed else self.watermark.from_.reveal()


@dataclass(frozen=True, slots=True)
class Step:
    """A transformation: its inputs (a union, if several), operations in order, and outputs."""

    name: str
    inputs: tuple[str, ...]
    operations: tuple[Operation, ...]
    on_error: str
    outputs: tuple[Stream, ...]
    parallelism: int
    side_outputs: frozenset[str] = frozenset()
    """The side outputs: failed rows, late rows, and rows without a match."""
    slot: str = DEFAULT_SLOT
    """The name of the slots that its subtasks are placed in."""
    may_chain: bool = True
    """Whether it may run in the task of its input."""
    round_inputs: frozenset[str] = frozenset()
    """The inputs that have another table in each round of a loop, of which they send all rows."""
    max_round_bytes: int = 0
    """The size of these rows that a subtask may hold."""

    @property
    def main_outputs(self) -> tuple[Stream, ...]:
        """The outputs without the side outputs."""
        return tuple(stream for stream in self.outputs if stream.name not in self.side_outputs)


@dataclass(frozen=True, slots=True)
class Sink:
    """An output of the plan."""

    name: str
    input: str
    connector: str
    options: DocumentModel
    format: Format | None
    parallelism: int
    key: tuple[str, ...] = ()
    """The key by which its rows replace earlier ones: that of changes, or one of its options."""
    max_value: int = DEFAULT_MAX_VALUE
    """The largest value, in bytes, that a growing call in its options makes."""
    slot: str = DEFAULT_SLOT
    """The name of the slots that its subtasks are placed in."""
    may_chain: bool = True
    """Whether it may run in the task of its input."""


PlanPart: TypeAlias = Source | Step | Sink


@dataclass(frozen=True, slots=True)
class Task:
    """Parts that are chained: connected by forward edges, without other readers in between."""

    parts: tuple[str, ...]
    parallelism: int
    slot: str = DEFAULT_SLOT
    """The name of the slots that its subtasks are placed in."""


@dataclass(frozen=True)
class Plan:
    """The whole pipeline. Parts are in topological order: every input is before its reader."""

    name: str
    key_groups: int
    parts: tuple[PlanPart, ...]
    edges: tuple[Edge, ...]
    tasks: tuple[Task, ...]

    def __iter__(self) -> Iterator[PlanPart]:
        return iter(self.parts)

    def part(self, name: str) -> PlanPart:
        """Return the part of that name."""
        return self._parts_by_name[name]

    @cached_property
    def _parts_by_name(self) -> Mapping[str, PlanPart]:
        return {part.name: part for part in self.parts}

    @cached_property
    def streams(self) -> Mapping[str, Stream]:
        """Every stream, by name."""
        return {
            stream.name: stream
            for part in self.parts
            if not isinstance(part, Sink)
            for stream in part.outputs
        }
