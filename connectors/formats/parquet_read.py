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
from headrace.connectors.formats.faults import Faults
from headrace.connectors.formats.json_encode import JsonEncoder
from headrace.connectors.formats.parquet_types import converted, holds
from headrace.connectors.formats.required import lacking
from headrace.connectors.guess.parquet import from_polars
from headrace.core.contracts import BadRecord, ConnectorError
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

        with _telling():
            found = pl.read_parquet_schema(path)
            for field in self.declared:
                _check(field, found)
            columns = [
                converted(pl.col(field.name), found[field.name], field.type).alias(field.name)
                for field in self.schema
            ]
            file = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            frame = file.select(columns).slice(first, rows).collect()
        return self._sound(frame, first), frame.height

    def _sound(self, frame: pl.DataFrame, first: int) -> Decoded:
        """The rows without those in which something is null that must not be; and those."""
        import polars as pl

        faults = Faults()
        for field in self.schema:
            for row, why in lacking(field, frame[field.name]).items():
                faults.setdefault(row, why)
        if not faults:
            return frame, ()
        rows = sorted(faults)
        texts = JsonEncoder(self.schema).encode(frame[rows]).decode().split("\n")
        bad = tuple(
            BadRecord(faults[row], first + row, text)
            for row, text in zip(rows, texts, strict=False)
        )
        numbers = pl.int_range(frame.height, eager=True)
        return frame.filter(~numbers.is_in(rows)), bad


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
