"""Dead letters: the rows of a stream named by `on_error: {to: name}`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.core.api.sources import BadRecord
from headrace.core.api.splits import Split
from headrace.core.plan.endpoints import DEAD_LETTER_SCHEMA
from headrace.core.types.data_types import to_polars

if TYPE_CHECKING:
    import polars as pl


def from_bad_records(
    source: str, split: Split, bad: Iterable[BadRecord], now_us: int
) -> pl.DataFrame:
    """Return dead letters for the bad records of a source."""
    return _build_frame(
        (record.error, source, source, split.name, record.position, record.raw, now_us)
        for record in bad
    )


def from_failed_rows(
    step: str, failed: Iterable[tuple[str, dict[str, Any]]], now_us: int
) -> pl.DataFrame:
    """Return dead letters for rows on which a step failed, each pair an error and a row.

    The rows become JSON. Their source position is unknown after an exchange, so it is null.
    """
    return _build_frame(
        (error, step, None, None, None, format_row_text(row), now_us) for error, row in failed
    )


def format_row_text(row: dict[str, Any]) -> str:
    """Return a row as JSON."""
    import polars as pl

    return pl.DataFrame([_encode_value(row)]).write_ndjson().rstrip("\n")


def _encode_value(value: Any) -> Any:
    """Return the value with bytes as base64, as sinks write them; Polars panics at bytes."""
    match value:
        case bytes():
            return b64encode(value).decode()
        case list():
            return [_encode_value(each) for each in value]
        case dict():
            return {name: _encode_value(each) for name, each in value.items()}
    return value


def _build_frame(rows: Iterable[tuple[Any, ...]]) -> pl.DataFrame:
    import polars as pl

    columns = list(zip(*rows, strict=True))
    series = []
    for field, values in zip(DEAD_LETTER_SCHEMA, columns, strict=True):
        type = to_polars(field.type)
        physical = pl.Int64() if isinstance(type, pl.Datetime) else type
        series.append(pl.Series(field.name, values, dtype=physical).cast(type))
    return pl.DataFrame(series)
