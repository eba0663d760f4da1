"""Values that are recorded as the text that Spark shows: times of day and intervals."""

from __future__ import annotations

import polars as pl

from headrace.core.expressions.casts import build_cast_form
from headrace.core.types.data_types import STRING, Type


def is_shown_as_text(type: str) -> bool:
    """Whether the type is, or contains, a time of day or an interval."""
    return "time(" in type or "interval" in type


def to_spark_text(values: pl.Series, type: Type) -> pl.Series:
    """The values as Spark's text of them."""
    return values.to_frame("v").select(build_cast_form(type, STRING)(pl.col("v"))).to_series()


def from_spark_text(name: str, texts: list[str | None], type: Type) -> pl.Series:
    """The column of values with these texts."""
    column = pl.DataFrame({name: pl.Series(texts, dtype=pl.String)})
    return column.select(build_cast_form(STRING, type)(pl.col(name))).to_series()
