"""An operator of `match` that gets literal rows: keys, values, and times in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

import polars as pl

from headrace.core.operators.operator import FailedRow, Operator, Output
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US
from tests.support.runtime.changelogs import timed

T = TypeVar("T", bound=Operator)


class MatchTrial(Generic[T]):
    """An operator with the rows that have failed."""

    operator: T

    def __init__(self) -> None:
        self.failed = list[FailedRow]()

    def fail(self, rows: list[FailedRow]) -> Iterator[Output]:
        """Keep the rows that fail."""
        self.failed += rows
        return iter(())

    def process(self, *rows: tuple[str, int, int]) -> list[Output]:
        """Pass rows of key, value and second; return what is emitted at once."""
        frame = pl.DataFrame(
            [row[:2] for row in rows], schema={"k": pl.String(), "v": pl.Int32()}, orient="row"
        )
        frame = timed(frame, [row[2] for row in rows], ordered=True)
        return [*self.operator.process(frame.with_columns(pl.col(EVENT_TIME).alias("at")))]

    def advance(self, at_s: int | None = None) -> list[tuple[object, ...]]:
        """Return the rows that are emitted at a watermark, with times as seconds."""
        watermark_us = MAX_WATERMARK_US if at_s is None else at_s * 1_000_000
        found = list[tuple[object, ...]]()
        for stream, out in self.operator.advance(watermark_us):
            times = [name for name, type in out.schema.items() if type.is_temporal()]
            shown = out.with_columns(pl.col(times).dt.epoch("s"))
            prefix = () if stream == "out" else (stream,)
            found += [(*prefix, *row) for row in shown.rows()]
        return found
