"""Parquet files to frames: so many rows at a time, from any row on.

A file says itself what its columns are. They may be of other types than those declared, as long as
these hold every value: a wider number, a timestamp in other units. Anything else is an error of the
file, as is a column that it does not have. So the only bad records are rows in which something is
null that must not be; a row's position is its number, and its raw text is its JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.formats.contract import Decoded
from headrace.connectors.formats.parquet_types import converted, holds
from headrace.connectors.formats.required import sound
from headrace.connectors.guess.parquet import from_polars
from headrace.core.contracts import ConnectorError
from headrace.core.problems import did_you_mean
from headrace.core.types import Field, Schema

if TYPE_CHECKING:
    import polars as pl

ROWS = 1 << 16
"""So many rows are worth the visit, and no burden to memory."""


@dataclass(frozen=True, slots=True)
class ParquetReader:
    """Reads the columns of `schema`; all those `declared` must be in a file."""

    schema: Schema
    declared: Schema

    def read(self, path: str, first: int, rows: int = ROWS) -> tuple[Decoded, int]:
        """The rows from a row on, and how many there were: none at the end of the file.

        Raises ConnectorError if the file is none of Parquet, is damaged, or has other columns.
        """
        import polars as pl

        found = self.columns(path)
        with _telling():
            columns = [
                converted(pl.col(field.name), found[field.name], field.type).alias(field.name)
                for field in self.schema
            ]
            file = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            frame = file.select(columns).slice(first, rows).collect()
        return sound(frame, self.schema, first), frame.height

    def columns(self, path: str) -> Mapping[str, pl.DataType]:
        """The columns of a file. Raises ConnectorError if they are not those declared."""
        import polars as pl

        with _telling():
            file = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            found = file.collect_schema()
        for field in self.declared:
            _check(field, found)
        return found


def _check(field: Field, found: Mapping[str, pl.DataType]) -> None:
    """Whether the file has a column, of a type that the declared one can stand for."""
    import polars as pl

    if field.name not in found:
        hint = did_you_mean(field.name, found) or f"it has {', '.join(found)}"
        raise ConnectorError(f'the file has no column "{field.name}"', hint)
    dtype = found[field.name]
    type = from_polars(dtype)
    if dtype == pl.Null or (type and holds(field.type, type)):
        return
    raise ConnectorError(
        f'column "{field.name}": wanted {field.type}, the file has {type or dtype}',
        f"declare it as {type}" if type else "leave it out of the schema",
    )


@contextmanager
def _telling() -> Iterator[None]:
    """What Polars says of a file, in our words."""
    from polars.exceptions import PolarsError

    try:
        yield
    except PolarsError as error:
        reason = str(error).split("\n")[0].removeprefix("parquet: ")
        message = f"the file cannot be read as Parquet: {reason}"
        hint = "it may be damaged, still being written, or of another format"
        raise ConnectorError(message, hint) from error
    except OSError as error:
        raise ConnectorError(f"the file cannot be read: {error.strerror or error}") from error
