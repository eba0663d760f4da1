"""Rows made of their number: the same at every run, at any parallelism, on both executors."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headrace.core.contracts import Connector, ExpressionOption, SourceSide
from headrace.core.pipeline.fields import Computed
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.values import Count, RowRate, whole
from headrace.core.types import BIGINT, Schema
from headrace.core.types import Field as Column

NUMBERED = Schema((Column("id", BIGINT, nullable=False),))


class GenerateSource(Part):
    """Columns as expressions over `id`, the number of the row from 0."""

    columns: Computed = Field(
        description='The columns, as in `{x: "id % 10"}`; `id` is a bigint, from 0.'
    )
    rows: Count | None = Field(None, description="How many rows; by default without end.")
    rate: RowRate | None = Field(
        None, description="Rows in a time, such as `10000/s`; by default as fast as possible."
    )
    seed: Annotated[int, whole(0)] = Field(0, description="Other random numbers for another seed.")


GENERATE = Connector(
    "generate",
    "Rows computed from their number.",
    source=SourceSide(
        GenerateSource, expressions=(ExpressionOption("columns", NUMBERED, makes_columns=True),)
    ),
)
