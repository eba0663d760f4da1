"""Rows computed from their number: the same in every run, at any parallelism, on both executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from headrace.connectors.formats.factories import list_decoded_columns
from headrace.connectors.numbered_rows import (
    NumberedRows,
    check_split,
    make_batch_opener,
    make_reader_opener,
    make_source_opener,
)
from headrace.core.api.run_context import RunContext
from headrace.core.expressions import to_expr, type_expression
from headrace.core.expressions.checked_expressions import CheckedExpressions
from headrace.core.expressions.typed import is_fallible
from headrace.core.pipeline.connector_spec import ExpressionOption
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import Computed
from headrace.core.pipeline.values import Count, RowRate, whole_number
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, SourceSide
from headrace.core.types.data_types import BIGINT, Schema
from headrace.core.types.data_types import Field as Column

if TYPE_CHECKING:
    import polars as pl

ID_SCHEMA = Schema((Column("id", BIGINT, nullable=False),))
BYTES_PER_ROW = 100
"""About the size of a row, if it were read."""


GENERATE_KEY_ALIASES = {"count": "rows", "limit": "rows"}


class GenerateSource(DocumentModel):
    """Columns as expressions over `id`, the number of the row from 0."""

    key_aliases = GENERATE_KEY_ALIASES

    columns: Computed = Field(
        description='The columns, as in `{x: "id % 10"}`; `id` is a bigint, from 0.'
    )
    rows: Count | None = Field(None, description="How many rows; by default without end.")
    rate: RowRate | None = Field(
        None, description="Rows per second, minute or hour, as in `10000/s`; by default unlimited."
    )
    seed: Annotated[int, whole_number(0)] = Field(
        0, description="A different seed gives different random numbers."
    )


def _build_rows(source: nodes.Source, run_context: RunContext) -> NumberedRows:
    options = source.options
    assert isinstance(options, GenerateSource)
    bounds = [n for n in (options.rows, run_context.row_limit) if n is not None]
    maker = _ColumnComputer(options, source.decoded_columns, source.max_value)
    per_second = options.rate.per_second if options.rate else None
    count = min(bounds) if bounds else None
    wanted = list_decoded_columns(source)
    numbers = NumberedRows(
        source.name, maker.compute_rows, count, per_second, source.parallelism, wanted
    )
    return replace(numbers, cut_range=maker.cut_range) if maker.fallible else numbers


class _ColumnComputer:
    """Computes the requested columns."""

    def __init__(self, options: GenerateSource, wanted: Sequence[str], max_value: int) -> None:
        texts = {str(a.name): a.expression or a.name for a in options.columns}
        typed = {name: type_expression(texts[name], ID_SCHEMA, max_value) for name in wanted}
        self._exprs = [to_expr(value).alias(name) for name, value in typed.items()]
        self._wanted = wanted
        self.fallible = {name: value for name, value in typed.items() if is_fallible(value)}

    def compute_rows(self, first: int, last: int) -> pl.DataFrame:
        """Return the rows of the numbers `first` up to, not including, `last`."""
        return _make_ids(first, last).with_columns(*self._exprs).select(*self._wanted)

    def cut_range(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of numbers in which no growing call makes too much together."""
        for piece in CheckedExpressions(self.fallible).evaluate(_make_ids(first, last)):
            yield first, first + piece.rows.height
            first += piece.rows.height


def _make_ids(first: int, last: int) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame({"id": pl.int_range(first, last, dtype=pl.Int64, eager=True)})


def _is_bounded(options: DocumentModel) -> bool:
    assert isinstance(options, GenerateSource)
    return options.rows is not None


def _estimate_bytes(options: DocumentModel, folder: Path) -> int | None:
    assert isinstance(options, GenerateSource)
    return None if options.rows is None else options.rows * BYTES_PER_ROW


GENERATE = Connector(
    "generate",
    "Rows computed from their number.",
    source=SourceSide(
        GenerateSource,
        expressions=(ExpressionOption("columns", ID_SCHEMA, makes_columns=True),),
        open=make_source_opener(_build_rows),
        open_readers=make_reader_opener(_build_rows),
        check_split=check_split,
        open_batch=make_batch_opener(_build_rows),
        is_bounded=_is_bounded,
        bounding_hint="add rows, as in rows: 1000",
        estimate_bytes=_estimate_bytes,
    ),
)
