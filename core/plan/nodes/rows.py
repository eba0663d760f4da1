"""Stateless operations: operations on single rows."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal

from headrace.core.expressions.typed import TypedExpression
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.types.data_types import INT, Array, Field, Schema, Struct
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateExpression


@dataclass(frozen=True, slots=True)
class Explode:
    """One row for each element of an array; `outer` keeps rows whose array is empty or null.

    The element is the column `name`; with `fields`, the fields of the element are the columns. With
    `position`, so is the index of the element.
    """

    name: str
    array: TypedExpression
    outer: bool
    position: str = ""
    fields: tuple[str, ...] = ()
    text: str = ""
    """The array as written; empty if it is a column, or is not written as such."""
    generator: str = ""
    """The call of a generator as written, with the names of its columns."""

    @property
    def added_columns(self) -> tuple[Field, ...]:
        """The columns that each row has in addition."""
        assert isinstance(self.array.type, Array)
        element = self.array.type.element
        position = (Field(self.position, INT, self.outer),) if self.position else ()
        if not self.fields:
            return (*position, Field(self.name, element))
        assert isinstance(element, Struct)
        pairs = zip(self.fields, element.fields, strict=True)
        return (*position, *(Field(name, field.type) for name, field in pairs))


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which a condition is true."""

    condition: TypedExpression
    text: str


@dataclass(frozen=True, slots=True)
class Project:
    """The output columns, all computed from the input; `clause` and `text` are as written."""

    clause: Literal["select", "with", "extend", "drop"]
    columns: tuple[ComputedColumn, ...]
    text: str


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """An output column: its name, its value, and the text of that, if it was written."""

    name: str
    value: TypedExpression
    text: str = ""


@dataclass(frozen=True, slots=True)
class AggregatedColumn:
    """A column that an aggregation adds: its name, its expression, and the text of that."""

    name: str
    expression: AggregateExpression
    text: str


@dataclass(frozen=True, slots=True)
class Map:
    """A user-defined Python function over batches or rows, with the declared columns it returns."""

    file: str
    function: str
    mode: Literal["batch", "row"]
    returns: Schema
    event_time: str | None
    changelog_key: tuple[str, ...] | None = None
    """The key of the upserts that it reads, which it must return; None if it reads other rows."""


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """Facts about changes: a row for each copy that is added or removed, with `_change`."""


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows from outside of a loop that a union inside stores, and adds to each table."""

    inputs: frozenset[str]
    """The inputs that they come from."""
    columns: tuple[Field, ...]
    key: tuple[ComputedColumn, ...]
    """The key by which they are distributed. Where it has the values of a column of the rows, it
    also has the name of that column; other names in it are not those of columns."""
    has_row_order: bool
    """Whether they have their position in the row order."""

    @property
    def columns_without_key(self) -> tuple[Field, ...]:
        """The columns whose values are not in the key."""
        key = {column.name for column in self.key}
        return tuple(field for field in self.columns if field.name not in key)


@dataclass(frozen=True, slots=True)
class WeightConversion:
    """The conversion of append-only rows into retractions, row by row: each is added once.

    A union that reads changes begins with it; rows that have weights stay as they are.
    """

    columns: frozenset[str] | None = None
    """The columns that are needed of its rows; None: all."""
    stored: StoredRows | None = None
    """The rows that it stores."""


@dataclass(frozen=True, slots=True)
class RowTime:
    """The event time of rows that may be removed, computed from their columns."""

    value: TypedExpression
    text: str


@dataclass(frozen=True, slots=True)
class Route:
    """Named outputs: a row goes to the first branch whose condition is true, else to `else`."""

    branches: tuple[tuple[str, TypedExpression, str], ...]
    """Name, condition and text of each branch, in the order written."""

    def list_streams(self, step: str) -> tuple[str, ...]:
        """Return the streams of its branches in the step of that name; the last is `else`."""
        return (*(f"{step}.{name}" for name, _, _ in self.branches), f"{step}.else")


@dataclass(frozen=True, slots=True)
class LookupColumn:
    """A column that a lookup adds, and its name in the table."""

    field: Field
    column: str


@dataclass(frozen=True, slots=True)
class Lookup:
    """The columns of a table, added to rows with the same key.

    A call fails after `timeout_us`, and is retried `retries` times; at most `concurrency` calls are
    pending at a time. Answers for `cache_rows` keys are cached, each for `cache_us`.
    """

    connector: str
    options: DocumentModel
    key: tuple[ComputedColumn, ...]
    """The key; each column has its name in the table."""
    columns: tuple[LookupColumn, ...]
    on_miss: Literal["null", "drop", "fail", "to"]
    miss_stream: str = ""
    """The stream of rows without a match."""
    timeout_us: int = 10_000_000
    retries: int = 3
    concurrency: int = 10
    keeps_order: bool = True
    cache_rows: int = 0
    cache_us: int = 0
    reads_upserts: bool = False
    """Whether its rows are upserts: a row without a result deletes the row with its key."""
    name: str = field(default="", compare=False, repr=False)
    """The name of the table in a query; empty in a clause `lookup`."""

    @property
    def key_schema(self) -> Schema:
        """The columns of the table by which it is queried."""
        return Schema(tuple(Field(c.name, c.value.type, nullable=False) for c in self.key))

    @property
    def added_schema(self) -> Schema:
        """The columns that it adds, under their output names."""
        return Schema(tuple(found.field for found in self.columns))
