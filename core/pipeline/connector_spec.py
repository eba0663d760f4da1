"""The specification by which a pipeline document knows a connector.

It has the connector's name, the options of its sides, the formats it supports, the origin of its
columns, and what it cannot be combined with. `core/plan/connector.py` adds the functions that open
the connector for a node of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.settings import Checkpoint
from headrace.core.pipeline.text import Text
from headrace.core.types.change_columns import ChangeForm
from headrace.core.types.data_types import Field, Schema, Type
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.stream_kinds import StreamKind, Upsert


@dataclass(frozen=True, slots=True)
class ExpressionOption:
    """An option that holds expressions.

    The option's value is a `Text`, or a tuple of `Assignment`. `input_columns` has the columns
    that the expressions may use; on a sink it is None: the columns of the stream that it writes.
    `types` are the allowed result types; none: any type.
    """

    option: str
    input_columns: Schema | None = None
    makes_columns: bool = False
    types: tuple[Type, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnOption:
    """An option that names one or several columns of the stream that a sink writes, or of those
    that a source declares.

    `find_objection` returns why a column of a type is not allowed, and a hint; empty texts if it
    is.
    """

    option: str
    find_objection: Callable[[Type], tuple[str, str]] = lambda _: ("", "")
    keywords: frozenset[str] = frozenset()
    """Words with a meaning of their own in this option; they do not name columns."""


@dataclass(frozen=True, slots=True)
class ExtraColumnsOption:
    """The option of a source that adds columns to those that the user declares."""

    option: str
    columns: Callable[[DocumentModel], Sequence[tuple[Text, Field]]]
    """Returns the added columns, each with the text that names it."""


@dataclass(frozen=True, slots=True)
class SinkInput:
    """The stream that a sink writes, and the kind of job that it is part of."""

    schema: Schema
    kind: StreamKind
    is_timed: bool
    """Whether rows have an event time."""
    checkpoint: Checkpoint
    """The checkpoint settings of the pipeline."""
    unreplayable_sources: tuple[str, ...]
    """The sources that cannot be replayed; if there are any, the job takes no checkpoints."""
    format: str = ""
    """The format of the records."""


@dataclass(frozen=True, slots=True)
class ConnectorMismatch:
    """The reason why a connector cannot handle a stream.

    `text` is the text of the document to point at; by default it is the connector's key.
    """

    message: str
    text: Text | None = None
    hint: str = ""


def find_key_mismatches(
    key: Sequence[Text], kind: Upsert, columns: Collection[str] | None = None
) -> Iterator[ConnectorMismatch]:
    """Yield the difference between the key of a sink, if it has one, and that of the changes.

    `columns`: only these names are held against the key of the changes, as others are reported
    elsewhere; None: all names.
    """
    stream = ", ".join(kind.key)
    known = key if columns is None else [name for name in key if name in columns]
    alien = [name for name in known if name not in kind.key]
    missing = [name for name in kind.key if name not in key]
    if alien:
        message = f'key: the rows are changes of ({stream}), and "{alien[0]}" is not in that key'
        yield ConnectorMismatch(message, alien[0], "remove key:")
    elif missing and key and len(known) == len(key):
        message = f"key: the rows are changes of ({stream}), and {', '.join(missing)} is left out"
        yield ConnectorMismatch(message, key[0], "remove key:")


def keep_all_columns(options: DocumentModel, schema: Schema, format: str) -> Schema:
    """Return all columns: each of them is part of a record."""
    return schema


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """The reading side of a connector. `columns` returns the columns that the options imply."""

    options: type[DocumentModel]
    formats: tuple[str, ...] = ()
    columns: Callable[[DocumentModel], Schema] | None = None
    extra_columns: ExtraColumnsOption | None = None
    expressions: tuple[ExpressionOption, ...] = ()
    column_options: tuple[ColumnOption, ...] = ()
    record_columns: Callable[[DocumentModel, Schema, str], Schema] = keep_all_columns
    """Returns the columns of a record, given the options, all columns, and the format."""
    describe_exclusive: Callable[[DocumentModel], str] | None = None
    """Describes the resource that no two sources of a pipeline can share."""
    is_bounded: Callable[[DocumentModel], bool] = lambda _: True
    """Whether the source has an end."""
    bounding_hint: str = ""
    """The hint for users on how to give the source an end."""
    is_replayable: bool = True
    """Whether it can be read again from a position, which resuming from a checkpoint needs."""
    estimate_bytes: Callable[[DocumentModel, Path], int | None] = lambda options, folder: None
    """Returns about how many bytes are to be read; None if it is unknown, or there is no end."""
    keeps_key_order: bool = False
    """Whether all records of a key are in one split, in the order in which they were written."""
    holds_time_back: Callable[[DocumentModel], bool] = lambda _: False
    """Whether unread splits, perhaps many, hold event time back."""

    @property
    def declares_columns(self) -> bool:
        """Whether the user declares the columns, under `schema:`."""
        return self.columns is None and not any(e.makes_columns for e in self.expressions)


def find_nothing(options: DocumentModel, sink: SinkInput) -> Iterator[ConnectorMismatch]:
    """Find no mismatch: the sink can write any stream."""
    return iter(())


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """The writing side of a connector."""

    options: type[DocumentModel]
    formats: tuple[str, ...] = ()
    expressions: tuple[ExpressionOption, ...] = ()
    column_options: tuple[ColumnOption, ...] = ()
    record_columns: Callable[[DocumentModel, Schema, str], Schema] = keep_all_columns
    """Returns the columns of a record, given the options, all columns, and the format."""
    find_mismatches: Callable[[DocumentModel, SinkInput], Iterator[ConnectorMismatch]] = (
        find_nothing
    )
    """Yields the reasons why the sink cannot write a stream."""
    describe_exclusive: Callable[[DocumentModel], str] | None = None
    """Describes the resource that no two sinks of a pipeline can share."""
    prints_rows: bool = False
    """Whether rows are printed where the command runs, and cannot be taken back."""
    takes_removed_rows: bool = False
    """Whether it writes rows that have no key and are removed again, with `_delete`."""
    get_upsert_key: Callable[[DocumentModel], tuple[str, ...]] = lambda _: ()
    """Returns the columns by which rows of an append-only stream replace each other; none: they
    are appended."""
    unkeyed_hint: str = ""
    """The end of the hint for users on how to write other rows than these."""
    get_change_form: Callable[[DocumentModel, str], ChangeForm | None] = lambda *_: None
    """Returns the form in which changes are written, given the options and the format; None: the
    last row of each key, with `_delete`."""
    needs_writer_count: bool = False
    """Whether the largest number of writers must be known before the first row."""


@dataclass(frozen=True, slots=True)
class LookupSpec:
    """The lookup side of a connector, which finds rows by their keys."""

    options: type[DocumentModel]
    find_mismatches: Callable[[DocumentModel, Schema, Schema], Iterator[ConnectorMismatch]] = (
        lambda *_: iter(())
    )
    """Yields the reasons against these key columns and these added columns."""
    is_in_memory: bool = False
    """Whether the whole table is in memory, so that a cache is of no use."""


@dataclass(frozen=True, slots=True)
class ConnectorSpec:
    """A connector's key in the document, a sentence for the docs, and its sides."""

    name: str
    doc: str
    source: SourceSpec | None = None
    sink: SinkSpec | None = None
    lookup: LookupSpec | None = None
    describe_feedback: Callable[[DocumentModel, DocumentModel, str, Path], str] = lambda *_: ""
    """Describes the data that a source would read back from a sink's output; empty if there is
    none. Takes the options of both, the sink's format, and the pipeline's folder."""
    allows_feedback: bool = False
    """Whether a source may read what a sink of the same pipeline writes."""


ConnectorSpecs: TypeAlias = Mapping[str, ConnectorSpec]
