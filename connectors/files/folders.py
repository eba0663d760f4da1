"""`partition_by`: rows divided by folder, named as Hive and Spark name folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.connectors.files.names import format_folder
from headrace.core.types import STRING, Schema

if TYPE_CHECKING:
    import polars as pl

FolderDivision: TypeAlias = "Callable[[pl.DataFrame], Iterator[tuple[str, pl.DataFrame]]]"


def make_folder_division(schema: Schema, columns: Sequence[str]) -> FolderDivision:
    """Return a function that divides a batch by folder and drops the folders' columns.

    Values are formatted as by `cast(... as string)`, which is also what Spark writes.
    """
    if not columns:
        return _keep_undivided
    import polars as pl

    from headrace.core.expressions.casts import build_cast_form

    types = {field.name: field.type for field in schema}
    shown = [
        pl.col(name)
        if types[name] == STRING
        else build_cast_form(types[name], STRING)(pl.col(name))
        for name in columns
    ]
    marks = [f"__folder{at}" for at in range(len(columns))]
    exprs = [expr.alias(mark) for expr, mark in zip(shown, marks, strict=True)]

    def spread(frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
        marked = frame.with_columns(exprs).drop(columns)
        parts = marked.partition_by(marks, as_dict=True, include_key=False, maintain_order=True)
        for values, part in parts.items():
            pairs = zip(columns, values, strict=True)
            yield "/".join(format_folder(column, value) for column, value in pairs), part

    return spread


def _keep_undivided(frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    yield "", frame
