"""Sources, steps and sinks, the edges between them, and the tasks that they are laid out in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from headrace.core.pipeline.model import Watermark
from headrace.core.pipeline.part import Part
from headrace.core.plan.matching import Connected
from headrace.core.plan.nodes.joins import Join, TwoSided
from headrace.core.plan.nodes.keyed import Body, Keyed, Process
from headrace.core.plan.nodes.rows import Computed, Explode, Filter, Lookup, Map, Project, Route
from headrace.core.plan.nodes.streams import Stream
from headrace.core.types import Schema

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
