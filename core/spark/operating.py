"""Our own operators inside of executors: what has no form as a DataFrame means there what it means.

Rows of a key come to one partition, in the order of event time, so time goes on as they come, and
state is what is open at a time. A stream of changes ends as the last row of each key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.compile import Seat, compile_steps
from headrace.core.elements import DELETE, EVENT_TIME, FOREVER_US
from headrace.core.keygroups import groups_of
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.operator import ASIDE, Chain, Output
from headrace.core.plan import nodes
from headrace.core.spark.columns import Columns
from headrace.core.spark.expressions import attempted, column_sql
from headrace.core.spark.inside import Inside
from headrace.core.spark.stage import staged
from headrace.core.state import KEY
from headrace.core.types import DOUBLE, FLOAT, INT

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import Column, DataFrame

GROUP = "__group"
"""The key group of a row."""
MOST_CHANGES = 200_000
"""So many changes are put together to the last of each key at once."""


@dataclass(frozen=True, slots=True)
class Operated:
    """An operation of a step, as a step of its own: what goes in has one name, and what comes out
    has those of the step's outputs."""

    step: nodes.Step
    outputs: tuple[tuple[str, Columns], ...]
    """The streams that are wanted of it, with their columns."""
    changes: nodes.Upsert | None
    """How its rows replace each other, if they do."""
    in_time: bool
    """Whether rows come in the order of their event time."""
    inside: Inside

    def over(self, rows: DataFrame) -> dict[str, DataFrame]:
        """What it makes of rows that were dealt and sorted as it needs them."""
        names, columns = zip(*self.outputs, strict=True)
        return dict(zip(names, staged(rows, self.step.name, self, columns), strict=True))

    def __call__(
        self, partition: int, frames: Iterator[pl.DataFrame]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """`Work` over the rows of a partition."""
        with self.inside.setting() as setting:
            compiled = compile_steps((self.step,), setting, self._seat(partition))
            assert compiled.chain is not None
            try:
                yield from self._numbered(self._run(compiled.chain, frames))
            finally:
                compiled.close()

    def _seat(self, partition: int) -> Seat:
        """Who the operator is: a partition goes by itself."""
        return Seat(0, 1, self.inside.key_groups)

    def _run(self, chain: Chain, frames: Iterator[pl.DataFrame]) -> Iterator[Output]:
        for frame in frames:
            yield from chain.process(frame)
            if self.in_time and frame.height:
                yield from chain.advance(frame[EVENT_TIME].to_physical()[-1])
        yield from chain.advance(FOREVER_US)

    def _numbered(self, outputs: Iterator[Output]) -> Iterator[tuple[int, pl.DataFrame]]:
        numbers = {name: at for at, (name, _) in enumerate(self.outputs)}
        last = _Last(self.changes.key) if self.changes else None
        for stream, frame in outputs:
            if stream == ASIDE or stream not in numbers:
                continue
            if last is not None and DELETE in frame.columns:
                last.put(frame)
            else:
                yield numbers[stream], frame
        if last is not None and (rows := last.rows()) is not None:
            yield numbers[self.step.name], rows


class _Last:
    """The last row of each key of changes; no row of a key that was deleted."""

    def __init__(self, key: tuple[str, ...]) -> None:
        self._key = key
        self._frames: list[pl.DataFrame] = []
        self._rows = 0
        self._most = MOST_CHANGES

    def put(self, frame: pl.DataFrame) -> None:
        """Changes, in their order."""
        self._frames.append(frame)
        self._rows += frame.height
        if self._rows > self._most:
            self._frames = [self._together()]
            self._rows = self._frames[0].height
            self._most = max(MOST_CHANGES, 2 * self._rows)

    def rows(self) -> pl.DataFrame | None:
        """The rows that are left; None where there were no changes."""
        import polars as pl

        if not self._frames:
            return None
        return self._together().filter(~pl.col(DELETE)).drop(DELETE)

    def _together(self) -> pl.DataFrame:
        import polars as pl

        whole = pl.concat(self._frames, how="diagonal")
        if not self._key:
            return whole.tail(1)
        return whole.unique(self._key, keep="last", maintain_order=True)


def grouped(
    rows: DataFrame, columns: Columns, key: tuple[nodes.Computed, ...], inside: Inside
) -> DataFrame:
    """The rows, with those of a key in one partition."""
    if not key:
        return rows.repartition(1)
    texts = [text for each in key if (text := column_sql(each)) is not None]
    if len(texts) == len(key):
        dealt = attempted(lambda: rows.repartition(*map(normal, texts, key)))
        if dealt is not None:
            return dealt
    return numbered(rows, columns, key, inside).repartition(GROUP).drop(GROUP)


def numbered(
    rows: DataFrame, columns: Columns, key: tuple[nodes.Computed, ...], inside: Inside
) -> DataFrame:
    """The rows with the key group of each."""
    work = _Grouping(key, inside.key_groups)
    (rows,) = staged(rows, "key", work, [{**columns, GROUP: INT}])
    return rows


def normal(text: str, column: nodes.Computed) -> Column:
    """A key as it is hashed: zero has no sign."""
    from pyspark.sql.functions import expr

    floats = column.value.type in (FLOAT, DOUBLE)
    return expr(f"({text}) + 0.0D" if floats else text)


@dataclass(frozen=True, slots=True)
class _Grouping:
    """`Work` that tells the key group of each row."""

    key: tuple[nodes.Computed, ...]
    key_groups: int

    def __call__(
        self, partition: int, frames: Iterator[pl.DataFrame]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """The rows with their key group."""
        import polars as pl

        grouping = Grouping(self.key)
        for frame in frames:
            rows = grouping.encoded(grouping.rows(frame, ()))
            groups = groups_of(rows[KEY], self.key_groups)
            yield 0, frame.with_columns(groups.cast(pl.Int32).alias(GROUP))
