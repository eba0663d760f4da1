"""What steps do to rows one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.core.expressions.typed import Typed
from headrace.core.pipeline.part import Part
from headrace.core.types import Field, Schema


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
