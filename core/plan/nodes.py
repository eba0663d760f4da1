"""The nodes of the plan: sources, steps and sinks, the streams between them, what each step does.

A step is a list of operations over the rows of its one stream (several inputs are first united);
its outputs are streams with a name, a schema and a kind. Everything is immutable and refers to
other parts by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from headrace.core.expressions.typed import Typed
from headrace.core.pipeline.model import Watermark
from headrace.core.pipeline.part import Part
from headrace.core.types import Schema


@dataclass(frozen=True, slots=True)
class Append:
    """The kind of a stream whose rows are facts: each is new, none takes another back."""

    def __str__(self) -> str:
        return "append"


@dataclass(frozen=True, slots=True)
class Upsert:
    """The kind of a stream whose rows replace (or delete) the earlier row of the same key."""

    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"upsert({', '.join(self.key)})"


Kind: TypeAlias = Append | Upsert


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows that go from one part to others, under the name that `from:` uses."""

    name: str
    schema: Schema
    kind: Kind
    timed: bool
    """Whether the rows carry an event time, and watermarks run beside them."""


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
    """A column of the output: its name, and what it is."""

    name: str
    value: Typed


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


Operation: TypeAlias = Explode | Filter | Project | Map | Route

Exchange: TypeAlias = Literal["forward", "hash", "rebalance", "broadcast"]


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream on its way to a consumer, and how its rows are spread over the subtasks there."""

    stream: str
    producer: str
    consumer: str
    exchange: Exchange
    key: tuple[str, ...] = ()


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


@dataclass(frozen=True, slots=True)
class Sink:
    """Where rows go."""

    name: str
    input: str
    connector: str
    options: Part
    format: Format | None
    parallelism: int


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
