"""How the document knows a connector, whichever it is: by its record, and nothing of it runs.

Its name, the options of its two sides, the formats it takes, where its columns come from, what it
does not go together with. What runs is behind the protocols of `contracts`, which `open` gives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.contracts import PieceReader, Sink, Source, Surroundings, Table
from headrace.core.messages import Handle
from headrace.core.pipeline.part import Part
from headrace.core.types import Field, Schema, Type

if TYPE_CHECKING:
    from headrace.core.pipeline.settings import Checkpoint
    from headrace.core.pipeline.text import Text
    from headrace.core.plan import nodes


@dataclass(frozen=True, slots=True)
class ExpressionOption:
    """An option that holds expressions: which, over what columns, and whether they make columns.

    The option's value is a `Text`, or a tuple of `Assignment`. `over` is None on a sink, for the
    columns of the stream that it writes. `types` are those that they may have; none: any.
    """

    option: str
    over: Schema | None = None
    makes_columns: bool = False
    types: tuple[Type, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnOption:
    """An option of a sink that names columns of the stream that it writes, one or several.

    `refuses` says why a column of that type cannot be it, and what to do; it is empty if it can.
    """

    option: str
    refuses: Callable[[Type], tuple[str, str]] = lambda _: ("", "")
    but: frozenset[str] = frozenset()
    """Words that are no columns there."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Columns that a source has beside those that users declare: the option that says which."""

    option: str
    columns: Callable[[Part], Sequence[tuple[Text, Field]]]
    """Each with the text that names it."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What a sink is to write, and in what kind of job."""

    schema: Schema
    kind: nodes.Kind
    timed: bool
    """Whether rows have an event time."""
    checkpoint: Checkpoint
    """As the settings say."""
    unrepeatable: tuple[str, ...]
    """The sources that cannot be read again, for which the job takes no checkpoints."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a sink cannot write that: where it was said (by default at the connector's key)."""

    message: str
    at: Text | None = None
    hint: str = ""


def everything(options: Part, schema: Schema, format: str) -> Schema:
    """All columns stand in a record."""
    return schema


@dataclass(frozen=True, slots=True)
class SourceSide:
    """How a connector reads. `columns` are those it brings itself, given its options."""

    options: type[Part]
    formats: tuple[str, ...] = ()
    columns: Callable[[Part], Schema] | None = None
    beside: Beside | None = None
    expressions: tuple[ExpressionOption, ...] = ()
    open: Callable[[nodes.Source, Surroundings], Source] | None = None
    place: Callable[[Part], str] | None = None
    """What two sources of a pipeline cannot share, as it is called."""
    pieces: Callable[[nodes.Source, Surroundings], PieceReader] | None = None
    """How a batch reads; None: it cannot."""
    bounded: Callable[[Part], bool] = lambda _: True
    """Whether it comes to an end."""
    to_end: str = ""
    """What users do to have it come to one."""
    replays: bool = True
    """Whether it can be read again from a position: else a job cannot go on from a checkpoint."""
    holds_back: Callable[[Part], bool] = lambda _: False
    """Whether splits that are not read yet, perhaps many, hold event time back."""
    look: Callable[[nodes.Source, Surroundings], Awaitable[str]] | None = None
    """What there is to read, in words; raises ConnectorError, and changes nothing. None: there is
    nothing outside."""

    @property
    def declares_columns(self) -> bool:
        """Whether users declare the columns, under `schema:`."""
        return self.columns is None and not any(e.makes_columns for e in self.expressions)


@dataclass(frozen=True, slots=True)
class SinkSide:
    """How a connector writes."""

    options: type[Part]
    formats: tuple[str, ...] = ()
    expressions: tuple[ExpressionOption, ...] = ()
    column_options: tuple[ColumnOption, ...] = ()
    records: Callable[[Part, Schema, str], Schema] = everything
    """The columns that stand in a record, given the options, all columns, and the format."""
    fits: Callable[[Part, Outgoing], Iterator[Misfit]] = lambda *_: iter(())
    """What stands in the way of writing that."""
    open: Callable[[nodes.Sink, Schema, Surroundings], Sink] | None = None
    place: Callable[[Part], str] | None = None
    """What two sinks of a pipeline cannot share, as it is called."""
    look: Callable[[nodes.Sink, Schema, Surroundings], Awaitable[str]] | None = None
    """Where there is to write, in words; raises ConnectorError, and changes nothing. None: there
    is nothing outside."""
    prints: bool = False
    """Whether rows go out where the command is, and cannot be taken back."""
    counts_writers: bool = False
    """Whether it has to be known before the first row how many writers there may be."""
    together: Callable[[Sequence[Handle]], Sequence[Handle]] = tuple
    """What all writers of a batch have prepared, perhaps none, as it is committed."""


@dataclass(frozen=True, slots=True)
class LookupSide:
    """How a connector is asked for rows by their keys."""

    options: type[Part]
    open: Callable[[nodes.Lookup, Surroundings], Table]
    look: Callable[[nodes.Lookup, Surroundings], Awaitable[str]]
    """What there is to ask, in words; raises ConnectorError, and changes nothing."""
    fits: Callable[[Part, Schema, Schema], Iterator[Misfit]] = lambda *_: iter(())
    """What stands in the way of looking up by such columns, and of adding such."""
    whole: bool = False
    """Whether all of its rows are kept, so that nobody need remember some."""


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector: its key in the document, a sentence for the docs, and its sides."""

    name: str
    doc: str
    source: SourceSide | None = None
    sink: SinkSide | None = None
    lookup: LookupSide | None = None
    reads_back: Callable[[nodes.Source, nodes.Sink, Path], str] = lambda *_: ""
    """What a source reads of what a sink writes, as it is called, if anything; the path is the
    pipeline's folder."""


Connectors: TypeAlias = Mapping[str, Connector]
