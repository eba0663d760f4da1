"""The options of `files:` in the pipeline document."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from headrace.core.pipeline.diagnostics import make_value_error
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import ColumnNames
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    SCALAR_SCHEMA,
    Count,
    Flag,
    InvalidScalar,
    ScalarReading,
    Size,
    choice_of,
    positive_duration,
)
from headrace.core.types.lazy_pattern import compile_pattern

Compression = Literal["none", "gzip", "zstd"]

URL_SCHEME = compile_pattern(r"([A-Za-z][A-Za-z0-9+.-]*):/(?=/)")


def _check_path(text: Text) -> Text:
    if not text.strip() or "\0" in text:
        raise InvalidScalar
    url = URL_SCHEME.match(text)
    if url and url[1].lower() == "file":
        raise make_value_error(
            text, "wanted a path, got a URL", f'did you mean "{text[url.end() + 1 :]}"?'
        )
    if url:
        raise make_value_error(
            text, f'"{url[1]}://" is not supported yet', "use a folder of this machine"
        )
    return text


# Not named "path": within a class body, that is the field.
path_reading = ScalarReading("a path", _check_path, SCALAR_SCHEMA)


class FilesSource(DocumentModel):
    """Files that match a glob or lie in a folder, read in the order of their names."""

    origin = ("path",)

    path: Annotated[Text, path_reading] = Field(
        description="A glob such as `in/*.jsonl` (`*`, `?`, `[...]`, and `**` for folders of any "
        "depth), or a folder, which is read with its subfolders, except for names that "
        "start with `.` or `_`; relative to the pipeline's file. `.gz` and `.zst` files are "
        "decompressed."
    )
    watch: Annotated[timedelta | None, positive_duration] = Field(
        None,
        description="How often to look for new files; by default the source ends. A file is read "
        "once, when it has not changed for that time; rows appended later are not read.",
    )
    partition_by: ColumnNames | None = Field(
        None,
        description="Columns whose values are in the names of folders, as in `day=2026-01-31/`, "
        "and not in the files.",
    )
    ordered: Flag = Field(
        False, description="Names sort by time: files not read yet do not hold the watermark back."
    )


class Roll(DocumentModel):
    """The limits at which a part is closed and the next one started; the first reached counts."""

    rows: Count | None = Field(None, description="After this number of rows.")
    bytes: Size | None = Field(None, description="At about this size.")
    every: Annotated[timedelta | None, positive_duration] = Field(
        None, description="After this time."
    )


class FilesSink(DocumentModel):
    """Parts in a folder, each visible under its name only when it is complete."""

    origin = ("path",)

    path: Annotated[Text, path_reading] = Field(
        description="The folder; relative to the pipeline's file. It is created if it is missing."
    )
    roll: Roll = Field(
        Roll(), description="When a part is closed; without it, at each checkpoint with rows in it."
    )
    partition_by: ColumnNames | None = Field(
        None, description="Columns that become folders, as in `day=2026-01-31/`."
    )
    compression: Annotated[Compression, choice_of("none", "gzip", "zstd")] = Field(
        "none",
        description="`gzip` and `zstd` add `.gz` and `.zst` to the names; Parquet is compressed "
        "internally.",
    )
    mode: Annotated[
        Literal["error", "append", "overwrite"], choice_of("error", "append", "overwrite")
    ] = Field(
        "error",
        description="`error`: fail if the folder holds output of another run; `append`: write "
        "next to it; `overwrite`: replace it, at the first checkpoint or at the end.",
    )
    changelog: Annotated[Literal["last", "full"], choice_of("last", "full")] = Field(
        "last",
        description="How a stream of changes is written. `last`: the new row of each change, with "
        "`_delete` if rows may be deleted; it needs a key. `full`: also the rows that are "
        "replaced, with `_change` and `_sequence` ([tables](tables.md#full-changelogs)).",
    )
