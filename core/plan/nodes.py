"""The nodes of the plan: sources, steps and sinks, the streams between them, what each step does.

A step is a list of operations over the rows of its one stream (several inputs are first united);
its outputs are streams with a name, a schema and a kind. Everything is immutable and refers to
other parts by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.core.elements import DELETE, HIDDEN
from headrace.core.expressions.typed import Typed
from headrace.core.pipeline.model import Watermark
from headrace.core.pipeline.part import Part
from headrace.core.plan.matching import Changing, Connected, Everywhere, Matching, Within
from headrace.core.plan.windows import Ttl, Window
from headrace.core.process.declared import Declared
from headrace.core.process.declared import Kind as StateKind
from headrace.core.types import BOOLEAN, Field, Schema
from headrace.core.user_code import UserCode

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateExpression


@dataclass(frozen=True, slots=True)
class Append:
    """The kind of a stream whose rows are facts: each is new, none takes another back."""

    def __str__(self) -> str:
        return "append"


@dataclass(frozen=True, slots=True)
class Upsert:
    """The kind of a stream whose rows replace the earlier row of the same key.

    `deletes`: some of its rows only take the earlier one back.
    """

    key: tuple[str, ...]
    deletes: bool = False
    fixed: frozenset[str] = field(default=frozenset(), compare=False)
    """Columns that depend on nothing but the key: a row keeps their values when it changes."""

    def __str__(self) -> str:
        return f"upsert({', '.join(self.key)}){' with deletes' if self.deletes else ''}"


Kind: TypeAlias = Append | Upsert


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows that go from one part to others, under the name that `from:` uses."""

    name: str
    schema: Schema
    kind: Kind
    timed: bool
    """Whether the rows carry an event time, and watermarks run beside them."""
    ordered: bool = False
    """Whether the rows carry their place in the order of all rows, because a reader needs it."""

    @property
    def written(self) -> Schema:
        """The columns that sinks write: with `_delete` where rows may take earlier ones back."""
        if isinstance(self.kind, Upsert) and self.kind.deletes:
            return Schema((*self.schema, Field(DELETE, BOOLEAN, nullable=False)))
        return self.schema


@dataclass(frozen=True, slots=True)
class Explode:
    """A row for each element of an array; `outer` keeps rows whose array is empty or null."""

    name: str
    array: Typed
    outer: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps the rows for which the condition is true."""

    condition: Typed
    text: str


@dataclass(frozen=True, slots=True)
class Project:
    """The columns of the output, all read from the input; `clause`, `text` are how it was said."""

    clause: Literal["select", "with", "drop"]
    columns: tuple[Computed, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Computed:
    """A column of the output: its name, what it is, and how that was said, where it was."""

    name: str
    value: Typed
    text: str = ""


@dataclass(frozen=True, slots=True)
class Map:
    """A user's Python function over batches or rows, with the columns it declares to return."""

    file: str
    function: str
    mode: Literal["batch", "row"]
    returns: Schema
    event_time: str | None


@dataclass(frozen=True, slots=True)
class Route:
    """A row goes to the first branch whose condition is true, else to `else`."""

    branches: tuple[tuple[str, Typed, str], ...]
    """Name, condition and text of each branch, in the order written."""


@dataclass(frozen=True, slots=True)
class Found:
    """A column that a lookup adds, and the column of the table that it is."""

    field: Field
    column: str


@dataclass(frozen=True, slots=True)
class Lookup:
    """Columns of a table beside the rows: those of its row whose columns equal the key.

    A call is given up after `timeout_us`, and tried again `retries` times; so many of them at most
    wait for their answer at a time. Answers for `cache_rows` keys are kept, each for `cache_us`.
    """

    connector: str
    options: Part
    on: tuple[Computed, ...]
    """The key, each part of it under the name that the table's column has."""
    add: tuple[Found, ...]
    on_miss: Literal["null", "drop", "fail", "to"]
    missed: str = ""
    """The stream of rows that the table has nothing for."""
    timeout_us: int = 10_000_000
    retries: int = 3
    concurrency: int = 10
    ordered: bool = True
    cache_rows: int = 0
    cache_us: int = 0

    @property
    def keys(self) -> Schema:
        """The table's columns that it is asked by."""
        return Schema(tuple(Field(c.name, c.value.type, nullable=False) for c in self.on))

    @property
    def added(self) -> Schema:
        """The columns that it adds, as they are called here."""
        return Schema(tuple(found.field for found in self.add))


BOUNDS = ("window_start", "window_end")
"""The columns that windows with a start and an end add."""

RANK = "rank"
"""The column that `top` adds."""


@dataclass(frozen=True, slots=True)
class Aggregated:
    """A column that an aggregating step adds: its name, its expression, and how it was said."""

    name: str
    expression: AggregateExpression
    text: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row a key and window; without a window a row for each change of a key.

    Its rows have the key's columns, `window_start` and `window_end` where windows have them, then
    the aggregates. `having` reads these columns.
    """

    key: tuple[Computed, ...]
    window: Window | None
    columns: tuple[Aggregated, ...]
    having: Filter | None = None
    ttl: Ttl | None = None
    changes: tuple[str, ...] | None = None
    """The key of the changes that it reads; None where it reads facts."""

    @property
    def needs_order(self) -> bool:
        """Whether its result depends on the order of rows."""
        evicts = self.window is not None and self.window.evict is not None
        return evicts or any(column.expression.needs_order for column in self.columns)


@dataclass(frozen=True, slots=True)
class Apply:
    """A user's function over the rows of each key and window.

    Its rows have the key's columns, `window_start` and `window_end` where windows have them, then
    the columns that it returns.
    """

    key: tuple[Computed, ...]
    window: Window
    code: UserCode
    of: Schema
    """The columns that the function is handed."""
    returns: Schema

    @property
    def ttl(self) -> None:
        """A window is forgotten when it is over."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What `top` ranks by."""

    value: Typed
    descending: bool
    nulls_last: bool
    text: str


@dataclass(frozen=True, slots=True)
class Top:
    """The first rows of a key (and window), with their `rank`."""

    key: tuple[Computed, ...]
    window: Window | None
    rows: int
    by: tuple[Ranking, ...]
    ttl: Ttl | None = None
    columns: frozenset[str] | None = None
    """The columns that are kept of a row, because they are read; None: all that it comes with."""
    changes: tuple[str, ...] | None = None
    """The key of the changes that it reads; None where it reads facts."""

    def keeps(self, column: str) -> bool:
        """Whether a column of its rows is kept."""
        return self.columns is None or column in self.columns or column in HIDDEN


@dataclass(frozen=True, slots=True)
class Dedup:
    """One row a key: the first that came, or the last, which replaces those before it."""

    key: tuple[Computed, ...]
    keep: Literal["first", "last"]
    ttl: Ttl | None = None
    in_time: bool = False
    """Whether it goes by event time: rows wait until the watermark has passed them."""
    late_to: str | None = None
    columns: frozenset[str] | None = None
    """The columns of rows that wait, because they are read; None: all that they come with."""

    def keeps(self, column: str) -> bool:
        """Whether a column of its rows is kept."""
        return self.columns is None or column in self.columns or column in HIDDEN


@dataclass(frozen=True, slots=True)
class Body:
    """A user's class as `process` runs it: what it puts out, and what it keeps of a key."""

    file: str
    name: str
    returns: Schema
    outputs: tuple[tuple[str, Schema], ...]
    """The named outputs, with their columns."""
    in_time: bool
    """Whether rows come in the order of their event time, for which they wait."""
    states: tuple[tuple[str, Declared], ...]
    """Its states and timers by their names, in the order in which it declares them."""

    @property
    def waits_for_clock(self) -> bool:
        """Whether something of it goes by the wall clock."""
        return any(said.processing for _, said in self.states)

    @property
    def timers(self) -> tuple[tuple[str, Declared], ...]:
        """Its timers."""
        return tuple((name, said) for name, said in self.states if said.kind is StateKind.TIMER)


@dataclass(frozen=True, slots=True)
class Process:
    """A user's class over the rows of each key."""

    key: tuple[Computed, ...]
    columns: Schema
    """The columns that rows come with."""
    timed: bool
    body: Body
    late_to: str | None = None

    @property
    def window(self) -> None:
        """It has none."""

    @property
    def ttl(self) -> None:
        """Each of its states has its own."""


Windowed: TypeAlias = Aggregate | Apply | Top
"""What may be done with the rows of a key and window."""

Keyed: TypeAlias = Aggregate | Apply | Top | Dedup | Process
"""What keeps state by key; its step reads rows that were hashed by that key."""

JoinType: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two inputs of a join: by what its rows meet those of the other, and their columns.

    `key` is over the columns that come in; both sides have keys of the same types, in their order.
    A null in a key equals nothing. `columns` are those that are kept, under the names that they
    have behind the join: no two of both sides have the same.
    """

    name: str
    """The name before the dot in the texts of the join."""
    key: tuple[Computed, ...]
    columns: tuple[Computed, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Rows of two inputs with equal keys, side by side; `semi` and `anti` have the left one's only.

    `only` says which of the pairs are meant, over the columns of both.
    """

    left: Side
    right: Side
    type: JoinType
    matching: Matching
    only: Filter | None
    text: str
    """What was said under `on`."""
    late_to: tuple[str | None, str | None] = (None, None)
    """The streams of left and right rows that came too late."""
    timed: bool = True
    """Whether its rows have an event time, as those of both inputs do."""

    @property
    def may_be_late(self) -> bool:
        """Whether rows can come too late to meet others."""
        match self.matching:
            case Changing() | Within(least_us=None):
                return False
            case Within(processing=processing):
                return not processing
            case Everywhere(in_time=in_time):
                return in_time
            case Connected(body):
                return body.in_time
        return True

    @property
    def keys(self) -> tuple[tuple[Computed, ...], tuple[Computed, ...]]:
        """By what the rows of each input are dealt out."""
        return self.left.key, self.right.key


TwoSided: TypeAlias = Join
"""What has two inputs that are no union; it is the first operation of its step."""

Operation: TypeAlias = Explode | Filter | Project | Map | Lookup | Route | Keyed | TwoSided


def body_of(operation: Operation) -> Body | None:
    """The user's class that an operation runs, if it runs one."""
    match operation:
        case Process(body=body) | Join(matching=Connected(body=body)):
            return body
    return None


Exchange: TypeAlias = Literal["forward", "hash", "rebalance", "broadcast"]


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream on its way to a consumer, and how its rows are spread over the subtasks there."""

    stream: str
    producer: str
    consumer: str
    exchange: Exchange
    key: tuple[Computed, ...] = ()
    side: int = 0
    """Which of the inputs of a step with two of them: 0 the left one, 1 the right one."""


@dataclass(frozen=True, slots=True)
class Format:
    """How records are written, with the options that were given for it."""

    name: str
    options: Part | None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows come from.

    `columns` are the ones that are decoded: those that the plan needs, and those that are `checked`
    because the user declared them `not null`.
    """

    name: str
    connector: str
    options: Part
    format: Format | None
    schema: Schema
    columns: tuple[str, ...]
    checked: frozenset[str]
    event_time: str | None
    watermark: Watermark | None
    on_error: str
    outputs: tuple[Stream, ...]
    parallelism: int


@dataclass(frozen=True, slots=True)
class Step:
    """Inputs, united where there are several; the operations in order; the streams that result."""

    name: str
    inputs: tuple[str, ...]
    operations: tuple[Operation, ...]
    on_error: str
    outputs: tuple[Stream, ...]
    parallelism: int
    asides: frozenset[str] = frozenset()
    """The outputs that are not its result: rows that failed, and rows that came too late."""

    @property
    def rows(self) -> tuple[Stream, ...]:
        """The outputs that are its result."""
        return tuple(stream for stream in self.outputs if stream.name not in self.asides)


@dataclass(frozen=True, slots=True)
class Sink:
    """Where rows go."""

    name: str
    input: str
    connector: str
    options: Part
    format: Format | None
    parallelism: int
    key: tuple[str, ...] = ()
    """The key of the changes that it writes, if its rows are changes."""


PlanPart: TypeAlias = Source | Step | Sink


@dataclass(frozen=True, slots=True)
class Task:
    """Parts that run as one: joined by forward edges, with nobody else reading in between."""

    parts: tuple[str, ...]
    parallelism: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole pipeline. Parts are in an order in which every input comes before its reader."""

    name: str
    key_groups: int
    parts: tuple[PlanPart, ...]
    edges: tuple[Edge, ...]
    tasks: tuple[Task, ...]

    def __iter__(self) -> Iterator[PlanPart]:
        return iter(self.parts)

    def part(self, name: str) -> PlanPart:
        """The part of that name."""
        return next(part for part in self.parts if part.name == name)

    @property
    def streams(self) -> Mapping[str, Stream]:
        """Every stream by its name."""
        return {
            stream.name: stream
            for part in self.parts
            if not isinstance(part, Sink)
            for stream in part.outputs
        }
