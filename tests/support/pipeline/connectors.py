"""Connectors for these tests only, so that the tests depend on the language alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from headrace.connectors.registry import REGISTRY as LOOKUPS
from headrace.core.pipeline.connector_spec import ExpressionOption
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import ColumnNames, Computed
from headrace.core.pipeline.values import (
    Count,
    Flag,
    RowRate,
    Size,
    Words,
    choice_of,
    positive_duration,
    whole_number,
)
from headrace.core.plan.connector import Connector, Connectors, SinkSide, SourceSide
from headrace.core.types.data_types import BIGINT, Schema
from headrace.core.types.data_types import Field as Column

FORMATS = ("json", "csv", "parquet", "raw")
LINES = ("json", "csv", "raw")
NUMBERED = Schema((Column("id", BIGINT, nullable=False),))
Streams = Literal["bids", "auctions", "persons"]
Modes = Literal["error", "append", "overwrite"]


class FilesSource(DocumentModel):
    """Files by a glob."""

    path: Words = Field(description="A glob such as `in/*.jsonl`, or a folder.")
    watch: Annotated[timedelta | None, positive_duration] = Field(
        None, description="How often to look."
    )
    ordered: Flag = Field(False, description="Names sort by time.")


class Roll(DocumentModel):
    """When a part is closed."""

    rows: Count | None = Field(None, description="After this number of rows.")
    bytes: Size | None = Field(None, description="At this size.")
    every: Annotated[timedelta | None, positive_duration] = Field(
        None, description="After this time."
    )


class FilesSink(DocumentModel):
    """Parts in a folder."""

    path: Words = Field(description="The folder.")
    roll: Roll = Field(Roll(), description="When a part is closed.")
    partition_by: ColumnNames | None = Field(None, description="Columns that become folders.")
    mode: Annotated[Modes, choice_of("error", "append", "overwrite")] = Field(
        "error", description="What about output of another run."
    )


class GenerateSource(DocumentModel):
    """Columns as expressions over `id`."""

    columns: Computed = Field(description='The columns, as in `{x: "id % 10"}`.')
    rows: Count | None = Field(None, description="How many rows.")
    rate: RowRate | None = Field(None, description="Rows in a time.")


class NexmarkSource(DocumentModel):
    """One of three streams."""

    events: Count | None = Field(None, description="Events of all streams.")
    rate: RowRate | None = Field(None, description="Events in a time.")
    seed: Annotated[int, whole_number(0)] = Field(0, description="Another site for another seed.")
    stream: Annotated[Streams, choice_of("bids", "auctions", "persons")] = Field(
        "bids", description="Which events become rows."
    )


class Nothing(DocumentModel):
    """It has no options."""


REGISTRY: Connectors = {
    connector.name: connector
    for connector in (
        Connector(
            "files",
            "Files in a folder.",
            SourceSide(FilesSource, FORMATS),
            SinkSide(FilesSink, FORMATS),
        ),
        Connector(
            "nexmark", "An auction site.", SourceSide(NexmarkSource, columns=lambda _: NUMBERED)
        ),
        Connector(
            "generate",
            "Rows made of their number.",
            SourceSide(
                GenerateSource,
                expressions=(ExpressionOption("columns", NUMBERED, makes_columns=True),),
            ),
        ),
        *(LOOKUPS[name] for name in ("file", "sql", "http")),
        Connector("console", "The terminal.", sink=SinkSide(Nothing)),
        Connector("stdin", "Standard input.", SourceSide(Nothing, LINES)),
        Connector("stdout", "Standard output.", sink=SinkSide(Nothing, LINES)),
    )
}
