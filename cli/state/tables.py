"""SQL tables of a snapshot: one for each state, and those of its manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.core.elements import FOREVER_US
from headrace.core.readable.columns import free

if TYPE_CHECKING:
    import polars as pl

    from headrace.cli.state.opened import Opened
    from headrace.core.readable.step import ReadableStep

Made: TypeAlias = "Callable[[], pl.DataFrame]"
"""Builds a table on demand."""

COUNTED = ("rows_in", "rows_out", "bad", "late", "unfilled")


def tables(opened: Opened) -> dict[str, Made]:
    """Return all tables by name; the step's own name is its first state."""
    found: dict[str, Made] = {}
    for step in opened.steps():
        for number, name in enumerate(step.names):
            if not number:
                found[step.step] = partial(_of_state, step, name)
            found[free(f"{step.step}_{name}", [*found])] = partial(_of_state, step, name)
    found[free("sources", [*found])] = partial(_sources, opened.said)
    found[free("counts", [*found])] = partial(_counts, opened.said)
    return found


def _of_state(step: ReadableStep, name: str) -> pl.DataFrame:
    import polars as pl

    frames = list(step.rows(name))
    return pl.concat(frames, how="diagonal") if frames else pl.DataFrame()


def _sources(said: Any) -> pl.DataFrame:
    """Build the table of splits and their positions."""
    import json

    import polars as pl

    time = pl.Datetime("us", "UTC")
    rows = [
        (
            *(source, each["split"], each["number"]),
            None if each["position"] is None else json.dumps(each["position"]).strip('"'),
            *(each["rows"], each["bad"], each["ended"]),
            None if each["at_us"] == FOREVER_US else each["at_us"],
        )
        for source, splits in said["sources"].items()
        for each in splits
    ]
    schema: Mapping[str, pl.DataType] = {
        **{"source": pl.String(), "split": pl.String(), "number": pl.Int64()},
        **{"position": pl.String(), "rows": pl.Int64(), "bad": pl.Int64(), "ended": pl.Boolean()},
        "watermark": pl.Int64(),
    }
    frame = pl.DataFrame(rows, schema, orient="row")
    return frame.with_columns(pl.col("watermark").cast(time))


def _counts(said: Any) -> pl.DataFrame:
    """Build the table of row counts by part."""
    import polars as pl

    schema = {"part": pl.String(), **dict.fromkeys(COUNTED, pl.Int64())}
    rows = [(part, *counts[: len(COUNTED)]) for part, counts in said["counts"]["parts"].items()]
    return pl.DataFrame(rows, schema, orient="row")
