"""SQL tables of a snapshot: one for each state, and those of its manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

    from headrace.cli.state.snapshot_argument import OpenSnapshot
    from headrace.core.state_reader.step_states import StepStateReader
    from headrace.core.types.data_types import Schema, Type


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, and the types of their columns."""

    rows: pl.DataFrame
    schema: Schema


TableFactory: TypeAlias = "Callable[[], Table]"
"""Builds a table on demand."""

COUNT_COLUMNS = ("rows_in", "rows_out", "bad", "late", "unfilled")


def build_tables(opened: OpenSnapshot) -> dict[str, TableFactory]:
    """Return all tables by name; the step's own name is its first state."""
    from headrace.core.state_reader.columns import make_unique_name

    tables: dict[str, TableFactory] = {}
    for step in opened.read_steps():
        for number, name in enumerate(step.state_names):
            if not number:
                tables[step.step] = partial(_read_state, step, name)
            tables[make_unique_name(f"{step.step}_{name}", [*tables])] = partial(
                _read_state, step, name
            )
    tables[make_unique_name("sources", [*tables])] = partial(_build_sources, opened.manifest)
    tables[make_unique_name("counts", [*tables])] = partial(_build_counts, opened.manifest)
    return tables


def _read_state(step: StepStateReader, name: str) -> Table:
    import polars as pl

    frames = list(step.read_rows(name))
    rows = pl.concat(frames, how="diagonal") if frames else pl.DataFrame()
    return _build_table(rows, step.list_column_types(name))


def _build_table(rows: pl.DataFrame, types: Mapping[str, Type]) -> Table:
    """Build a table of rows; `types` are those that the frame does not have."""
    from headrace.cli.state.values import build_schema
    from headrace.core.types.data_types import to_polars

    schema = build_schema(rows, types)
    return Table(rows.cast({field.name: to_polars(field.type) for field in schema}), schema)


def _build_sources(document: Any) -> Table:
    """Build the table of splits and their positions."""
    import json

    import polars as pl

    time = pl.Datetime("us", "UTC")
    rows = [
        (
            *(source, each["split"], each["number"]),
            None if each["position"] is None else json.dumps(each["position"]).strip('"'),
            *(each["rows"], each["bad"], each["ended"]),
            None if each["at_us"] == MAX_WATERMARK_US else each["at_us"],
        )
        for source, splits in document["sources"].items()
        for each in splits
    ]
    schema: Mapping[str, pl.DataType] = {
        **{"source": pl.String(), "split": pl.String(), "number": pl.Int64()},
        **{"position": pl.String(), "rows": pl.Int64(), "bad": pl.Int64(), "ended": pl.Boolean()},
        "watermark": pl.Int64(),
    }
    frame = pl.DataFrame(rows, schema, orient="row")
    return _build_table(frame.with_columns(pl.col("watermark").cast(time)), {})


def _build_counts(document: Any) -> Table:
    """Build the table of row counts by part."""
    import polars as pl

    schema = {"part": pl.String(), **dict.fromkeys(COUNT_COLUMNS, pl.Int64())}
    rows = [
        (part, *counts[: len(COUNT_COLUMNS)])
        for part, counts in document["counts"]["parts"].items()
    ]
    return _build_table(pl.DataFrame(rows, schema, orient="row"), {})
