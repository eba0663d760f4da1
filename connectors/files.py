"""Files of a folder: each one is a split of a source, or a part of a sink's output."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from headrace.core.contracts import Connector, SinkSide, SourceSide
from headrace.core.pipeline.fields import ColumnNames
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.settings import positive
from headrace.core.pipeline.values import Count, Flag, Size, Words, choice

FORMATS = ("json", "csv", "parquet", "raw")


class FilesSource(Part):
    """Files by a glob or in a folder, read in the order of their names."""

    path: Words = Field(
        description="A glob such as `in/*.jsonl`, or a folder; relative to the pipeline's file. "
        "`.gz` and `.zst` are read as what they are."
    )
    watch: Annotated[timedelta | None, positive] = Field(
        None, description="How often to look for new files; by default the source ends."
    )
    ordered: Flag = Field(
        False, description="Names sort by time: files not read yet do not hold the watermark back."
    )


class Roll(Part):
    """When a part is closed and the next one begun: at the first of these."""

    rows: Count | None = Field(None, description="After so many rows.")
    bytes: Size | None = Field(None, description="At this size.")
    every: Annotated[timedelta | None, positive] = Field(None, description="After so long.")


class FilesSink(Part):
    """Parts in a folder, each under its name only when it is whole."""

    path: Words = Field(description="The folder; relative to the pipeline's file.")
    roll: Roll = Field(
        Roll(), description="When a part is closed; without it, at each checkpoint with rows in it."
    )
    partition_by: ColumnNames | None = Field(
        None, description="Columns that become folders, as in `day=2026-01-31/`."
    )
    mode: Annotated[
        Literal["error", "append", "overwrite"], choice("error", "append", "overwrite")
    ] = Field(
        "error",
        description="`error`: the folder holds no output of another run; `append`: beside it; "
        "`overwrite`: instead of it.",
    )


FILES = Connector(
    "files",
    "Files in a folder.",
    source=SourceSide(FilesSource, FORMATS),
    sink=SinkSide(FilesSink, FORMATS),
)
