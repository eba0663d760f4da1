"""What the other folders implement, so that core knows none of them.

A connector is known to the document by this record: its name, the options of its two sides, the
formats it takes, and where its columns come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headrace.core.pipeline.part import Part
from headrace.core.types import Schema


@dataclass(frozen=True, slots=True)
class ExpressionOption:
    """An option that holds expressions: which, over what columns, and whether they make columns.

    The option's value is a `Text`, or a tuple of `Assignment`. `over` is None on a sink, for the
    columns of the stream that it writes.
    """

    option: str
    over: Schema | None = None
    makes_columns: bool = False


@dataclass(frozen=True, slots=True)
class SourceSide:
    """How a connector reads. `columns` are those it brings itself, given its options."""

    options: type[Part]
    formats: tuple[str, ...] = ()
    columns: Callable[[Part], Schema] | None = None
    expressions: tuple[ExpressionOption, ...] = ()

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


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector: its key in the document, a sentence for the docs, and its sides."""

    name: str
    doc: str
    source: SourceSide | None = None
    sink: SinkSide | None = None


Connectors: TypeAlias = Mapping[str, Connector]
