"""Lookups inside executors: each partition looks up its own rows, as a subtask does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.blame import attribute_errors_to
from headrace.core.compile import SubtaskSlice, compile_steps
from headrace.core.lookup.asked import LookupClient
from headrace.core.lookup.once import look_up_rows
from headrace.core.plan import nodes
from headrace.core.spark.columns import Columns
from headrace.core.spark.inside import ExecutorContext
from headrace.core.spark.stage import map_partitions

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class PartitionLookup:
    """The lookup of a step, as a step of its own; `outputs` are the streams that have a reader."""

    step: nodes.Step
    lookup: nodes.Lookup
    outputs: tuple[tuple[str, Columns], ...]
    context: ExecutorContext

    def apply(self, rows: DataFrame) -> dict[str, DataFrame]:
        """Return the output streams of these rows, by name."""
        names, columns = zip(*self.outputs, strict=True)
        return dict(zip(names, map_partitions(rows, self.step.name, self, columns), strict=True))

    def __call__(
        self, partition: int, frames: Iterator[pl.DataFrame]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """Look up the rows of a partition (a `PartitionFunction`)."""
        numbers = {name: at for at, (name, _) in enumerate(self.outputs)}
        with (
            self.context.open_operator_context() as setting,
            self.context.open_run_context() as surroundings,
        ):
            compiled = compile_steps(
                (self.step,), setting, SubtaskSlice(0, 1, self.context.key_groups)
            )
            stage = compiled.lookup_join
            assert stage is not None, self.step.name
            with attribute_errors_to(self.step.name), asyncio.Runner() as runner:
                asked = LookupClient(
                    self.lookup, self.context.open_lookup_table(self.lookup, surroundings)
                )
                try:
                    runner.run(asked.table.check())
                    for frame in frames:
                        for stream, out in runner.run(look_up_rows(stage, asked, frame)):
                            if stream in numbers:
                                yield numbers[stream], out
                finally:
                    runner.run(asked.close())
