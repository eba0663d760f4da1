"""Parquet files to frames: a range of rows at a time.

A file has its own schema. Its types may differ from the declared ones as long as these hold every
value: a wider number, a timestamp in other units. Any other type is an error of the file, as is a
missing column. So the only bad records are rows with a forbidden null; a row's position is its
number, and its raw text is its JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.connectors.formats.bad_records import split_null_violations
from headrace.connectors.formats.contract import DecodedBlock
from headrace.connectors.formats.parquet_types import can_hold, convert_value, from_polars
from headrace.core.api.failures import ConnectorError
from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.coercion import common_type
from headrace.core.types.data_types import Field, Schema, to_polars
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

READ_ROWS = 1 << 16
"""Rows read at once: enough to amortise the call, and few enough for memory."""


@dataclass(frozen=True, slots=True)
class ParquetReader:
    """Reads the columns of `schema`; all those `declared` must be in a file, others may be.

    In a union, a file may lack columns that are not declared `not null`, but not all of them, and
    a column may have any type that the declared one is the common type with.
    """

    schema: Schema
    declared: Schema
    is_union: bool = False

    def read(self, path: str, first: int, rows: int = READ_ROWS) -> tuple[DecodedBlock, int]:
        """Read rows from number `first` on, and count them: 0 at the end of the file.

        Raises ConnectorError if the file is not Parquet, is damaged, or has other columns.
        """
        import polars as pl

        found = self.read_columns(path)
        with _translate_errors():
            columns = [
                (
                    convert_value(pl.col(field.name), found[field.name], field.type)
                    if field.name in found
                    else pl.lit(None, dtype=to_polars(field.type))
                ).alias(field.name)
                for field in self.schema
            ]
            file = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            frame = file.select(columns).slice(first, rows).collect()
        return split_null_violations(frame, self.schema, first), frame.height

    def read_columns(self, path: str) -> Mapping[str, pl.DataType]:
        """Return the columns of a file. Raises ConnectorError if declared ones are missing."""
        import polars as pl

        with _translate_errors():
            file = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            found = file.collect_schema()
        known = {**_by_name(self.schema), **_by_name(self.declared)}.values()
        has_any = any(field.name in found for field in known)
        for field in known:
            may_lack = self.is_union and has_any and field.nullable
            is_needed = field.name in self.declared and not may_lack
            if field.name in found or is_needed:
                _check_column(field, found, is_union=self.is_union)
        return found


def _by_name(schema: Schema) -> dict[str, Field]:
    return {field.name: field for field in schema}


def _check_column(field: Field, found: Mapping[str, pl.DataType], *, is_union: bool) -> None:
    """Raise ConnectorError unless the file has the column, with a compatible type."""
    import polars as pl

    if field.name not in found:
        hint = suggest_name(field.name, found) or f"it has {', '.join(found)}"
        raise ConnectorError(f'the file has no column "{field.name}"', hint)
    dtype = found[field.name]
    type = from_polars(dtype)
    if dtype == pl.Null or (type and can_hold(field.type, type)):
        return
    if is_union and type and common_type(field.type, type) == field.type:
        return
    raise ConnectorError(
        f'column "{field.name}": wanted {field.type}, the file has {type or dtype}',
        f"declare it as {type}" if type else "leave it out of the schema",
    )


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translate errors of Polars to ConnectorError."""
    from polars.exceptions import PanicException, PolarsError

    try:
        yield
    except (PolarsError, PanicException) as error:  # it panics at some damage
        reason = str(error).split("\n")[0].removeprefix("parquet: ")
        message = f"the file cannot be read as Parquet: {reason}"
        hint = "it may be damaged, still being written, or of another format"
        raise ConnectorError(message, hint) from error
    except OSError as error:
        raise ConnectorError(f"the file cannot be read: {error.strerror or error}") from error
