"""Keyed operators on their own, over a key `k`, a number `v` and times in microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.core.aggregates import type_aggregate_text
from headrace.core.api.state import StepState
from headrace.core.api.state_backend import StateOwnership
from headrace.core.expressions.typed import ColumnReference, Span
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.keyed_factory import build_keyed_operator
from headrace.core.operators.operator import Operator, Output
from headrace.core.plan.nodes import Aggregate, AggregatedColumn, ComputedColumn
from headrace.core.plan.nodes.windows import Window
from headrace.core.types.change_columns import CHANGE
from headrace.core.types.data_types import BIGINT, Field, Schema
from headrace.core.types.elements import DELETE, EVENT_TIME, WEIGHT
from headrace.state.memory.backend import MemoryBackend

Row = tuple[int | None, int, int]
"""A key, a time, a number."""

SCHEMA = Schema((Field("k", BIGINT), Field("v", BIGINT)))
STAMP = pl.Datetime("us", "UTC")


class Keyed:
    """An operator of `count(*), sum(v)` over a window; `late` and `rows` are its output.

    A row is its key (if there is one), its window's start and end (if it has them), count and sum.
    Deletes take rows back.
    """

    def __init__(self, window: Window, *, keyed: bool = True, retracts: bool = False) -> None:
        key = (
            (ComputedColumn("k", ColumnReference(BIGINT, True, Span(0, 0), "k")),) if keyed else ()
        )
        keys = Schema((Field("k", BIGINT),)) if keyed else Schema(())
        texts = {"n": "count(*)", "total": "sum(v)"}
        columns = tuple(
            AggregatedColumn(name, type_aggregate_text(text, SCHEMA, keys), text)
            for name, text in texts.items()
        )
        self.window = window
        self.now_us = 0
        self.state: StepState = MemoryBackend().open_state(StateOwnership("s", 0, range(128), 128))
        place = KeyedContext("s", self.state, lambda: self.now_us, False, frozenset({"late"}))
        self.operator: Operator = build_keyed_operator(
            Aggregate(key, window, columns, reads_retractions=retracts), place
        )
        self.bounds = ("window_start", "window_end") if window.has_bounds else ()
        self.identity = (*keys.names, *self.bounds)
        self.late: list[Row] = []
        self.late_changes: list[str] = []
        """What each late row would do, if rows may be removed."""
        self.rows: list[tuple[int | None, ...]] = []

    def process(self, *rows: Row) -> None:
        """Rows come in one batch."""
        self._take(self.operator.process(frame_of(rows)))

    def change(self, *changes: tuple[Row, int]) -> None:
        """Rows are added and removed in one batch: each comes with its weight."""
        weights = pl.Series(WEIGHT, [weight for _, weight in changes], dtype=pl.Int64)
        self._take(self.operator.process(frame_of(row for row, _ in changes).hstack([weights])))

    def advance(self, watermark_us: int) -> None:
        """The watermark comes."""
        self._take(self.operator.advance(watermark_us))

    def tick(self, now_us: int) -> None:
        """The wall clock has come this far."""
        self.now_us = now_us
        due_us = self.operator.next_tick_us()
        if due_us is not None and due_us <= now_us:
            self._take(self.operator.tick(now_us))

    def _take(self, outputs: Iterable[Output]) -> None:
        for stream, frame in outputs:
            if stream == self.window.late_to:
                times = frame[EVENT_TIME].cast(pl.Int64)
                self.late.extend(zip(frame["k"], times, frame["v"], strict=True))
                self.late_changes.extend(frame[CHANGE] if CHANGE in frame.columns else ())
            else:
                self._change(frame)

    def _change(self, frame: pl.DataFrame) -> None:
        plain = frame.with_columns(pl.col(name).cast(pl.Int64) for name in self.bounds)
        shown = plain.select(*self.identity, "n", "total").rows()
        deleted: Sequence[bool] = [False] * frame.height
        if self.window.can_fire_again:
            deleted = frame[DELETE].to_list()
        for row, gone in zip(shown, deleted, strict=True):
            if self.window.can_fire_again:
                name = row[: len(self.identity)]
                before = [old for old in self.rows if old[: len(self.identity)] == name]
                assert before or not gone, "a row was deleted that is not there"
                self.rows = [old for old in self.rows if old not in before]
            if not gone:
                self.rows.append(row)


def frame_of(rows: Iterable[Row]) -> pl.DataFrame:
    """The rows as a batch."""
    types = {"k": pl.Int64, EVENT_TIME: pl.Int64, "v": pl.Int64}
    frame = pl.DataFrame(list(rows), schema=types, orient="row")
    return frame.with_columns(pl.col(EVENT_TIME).cast(STAMP)).select("k", "v", EVENT_TIME)
