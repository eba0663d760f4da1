"""Rows of tests as frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from headrace.core.plan import nodes
from headrace.core.testing.typed_rows import list_record_columns
from headrace.core.types.data_types import Schema, to_polars
from headrace.core.types.elements import DELETE, WEIGHT


def build_frame(rows: Sequence[Mapping[str, object]], schema: Schema) -> pl.DataFrame:
    """Build the frame of typed rows."""
    return pl.DataFrame(
        [
            pl.Series(f.name, [row.get(f.name) for row in rows], to_polars(f.type), strict=True)
            for f in schema
        ]
    )


def build_records(rows: Sequence[Mapping[str, object]], source: nodes.Source) -> pl.DataFrame:
    """Build the records of a source, with the columns that it decodes.

    Changes in the place of a step's output have the hidden columns of its kind.
    """
    columns = list_record_columns(source)
    decoded = {*source.decoded_columns, *(nodes.CHANGE_COLUMNS if source.table else ())}
    frame = build_frame(rows, Schema(tuple(f for f in columns if f.name in decoded)))
    if source.table is not None or DELETE not in frame.columns:
        return frame
    is_deleted = pl.col(DELETE).fill_null(False)
    if isinstance(source.outputs[0].kind, nodes.Upsert):
        return frame.with_columns(is_deleted)
    weight = pl.when(is_deleted).then(-1).otherwise(1).cast(pl.Int64).alias(WEIGHT)
    return frame.with_columns(weight).drop(DELETE)
