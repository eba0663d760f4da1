"""Results of user functions, validated against the columns that the pipeline declares."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from headrace.core.api.user_code import UserCodeError, format_error, get_polars_errors
from headrace.core.types.data_types import Schema, to_polars

if TYPE_CHECKING:
    import polars as pl


class ResultSchema:
    """The declared columns of result rows; `name` is the function's name in messages."""

    def __init__(self, name: str, columns: Schema) -> None:
        self._name = name
        self._columns = columns
        self.types = {field.name: to_polars(field.type) for field in columns}

    def parse_rows(self, answer: object) -> list[dict[str, Any]]:
        """Return the rows in None, a dict or a list of dicts, each with the declared columns."""
        rows: list[Any] = [answer]
        if answer is None:
            rows = []
        elif isinstance(answer, list):
            rows = answer
        for row in rows:
            if not isinstance(row, dict):
                actual = type(row).__name__
                raise UserCodeError(f"{self._name} must return a dict, got {actual}")
            if row.keys() != self.types.keys():
                self._raise_columns(list(row))
        return rows

    def build_frame(self, rows: list[dict[str, Any]]) -> pl.DataFrame:
        """Convert such rows into a frame."""
        import polars as pl

        series = []
        for field in self._columns:
            values = [row[field.name] for row in rows]
            try:
                series.append(
                    pl.Series(field.name, values, dtype=self.types[field.name], strict=True)
                )
            except get_polars_errors() as error:
                raise UserCodeError(
                    f'{self._name} returned a "{field.name}" that is not {field.type}: '
                    f"{format_error(error)}"
                ) from error
        return self.validate_frame(pl.DataFrame(series))

    def validate_frame(self, result: pl.DataFrame) -> pl.DataFrame:
        """Return the result with the declared columns, in their order.

        Raises UserCodeError, which names the first column that is not as declared.
        """
        import polars as pl

        if set(result.columns) != set(self.types):
            self._raise_columns(result.columns)
        for field in self._columns:
            actual, wanted = result.schema[field.name], self.types[field.name]
            if actual != wanted and actual != pl.Null:
                raise UserCodeError(
                    f'{self._name}: column "{field.name}" is declared {field.type} ({wanted}), '
                    f"but has type {actual}",
                    f'cast it: pl.col("{field.name}").cast({_format_python_type(wanted)})',
                )
            if not field.nullable and result[field.name].null_count():
                raise UserCodeError(
                    f'{self._name}: column "{field.name}" is declared not null, but has nulls'
                )
        return result.select(pl.col(name).cast(type) for name, type in self.types.items())

    def _raise_columns(self, names: list[str]) -> None:
        wanted = ", ".join(self.types)
        shown = ", ".join(map(str, names)) or "none"
        raise UserCodeError(f"{self._name} must return the columns {wanted}, got {shown}")


def _format_python_type(type: pl.DataType) -> str:
    """Return the Python source of a Polars type.

    >>> import polars as pl
    >>> _format_python_type(pl.List(pl.Struct({"a": pl.Datetime("us", "UTC")})))
    "pl.List(pl.Struct({'a': pl.Datetime(time_unit='us', time_zone='UTC')}))"
    """
    return re.sub(r"(?<!')\b[A-Z]\w*(?!')", r"pl.\g<0>", str(type))
