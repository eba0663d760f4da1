"""A pipeline as far as Spark builds it, and the same pipeline as a stream over memory."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from headrace.connectors.memory import InMemoryData
from headrace.connectors.registry import REGISTRY
from headrace.core.job.job import JobOutcome
from headrace.core.pipeline.settings import State
from headrace.core.plan.endpoints import DEAD_LETTER_SCHEMA
from headrace.core.spark.batch_plan import to_batch_plan
from headrace.core.spark.dataframe_builder import DataFrameBuilder
from headrace.core.spark.executor_context import ExecutorContext
from headrace.core.spark.sources import BatchCounts, create_counts, find_inputs
from headrace.state.backends import open_backend
from tests.support import file_pipelines
from tests.support.runtime.memory_pipelines import plan_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows: TypeAlias = "Counter[tuple[Any, ...]]"


@dataclass(frozen=True, slots=True)
class Reads:
    """Spark's plan for each sink, and its counts of rows."""

    frames: dict[str, DataFrame]
    streams: dict[str, DataFrame]
    counts: BatchCounts

    def rows(self, sink: str = "o") -> Rows:
        """The rows of a sink."""
        return _counted(self.frame(sink))

    def frame(self, sink: str = "o") -> pl.DataFrame:
        """The rows of a sink, in no order, without what travels with them."""
        return _shown(pl.DataFrame(self.frames[sink].toArrow()))


def text_of(source: str, steps: str = "", **sinks: str) -> str:
    """A pipeline that reads `s`; `sinks` are their names, and what they write."""
    lines = [f"  {name}: {{from: {of}, memory: {{data: {name}}}}}" for name, of in sinks.items()]
    return "\n".join([f"sources:\n  s: {source}", steps, "sinks:", *lines])


def batch(spark: SparkSession, folder: Path, text: str) -> Reads:
    """The pipeline on Spark. Raises ConnectorError."""
    connectors = file_pipelines.connectors_of()
    plan = to_batch_plan(plan_of(folder, text, connectors))
    read = frozenset(edge.stream for edge in plan.edges)
    made = partial(open_backend, State())
    inside = ExecutorContext("p", folder, uuid.uuid4().hex, REGISTRY, made, plan.key_groups, read)
    counted = create_counts(spark)
    building = DataFrameBuilder(
        spark, plan, inside, asyncio.run(find_inputs(spark, plan, inside, counted))
    )
    frames = building.build()
    return Reads(frames, {n: rows.frame for n, rows in building.streams.items()}, counted)


def stream(folder: Path, text: str) -> tuple[JobOutcome, dict[str, Rows]]:
    """The pipeline as a stream, and the rows of its sinks."""
    memory = InMemoryData()
    outcome = file_pipelines.run(folder, text, memory=memory)
    return outcome, {
        name: sum((_counted(_shown(frame)) for frame in frames), Counter())
        for name, frames in memory.outputs.items()
    }


def _shown(frame: pl.DataFrame) -> pl.DataFrame:
    """Without what travels with rows, and without the time at which records failed."""
    letters = set(DEAD_LETTER_SCHEMA.names) <= set(frame.columns)
    hidden = [name for name in frame.columns if name.startswith("__")]
    return frame.drop(*hidden, *(["at"] if letters else []))


def _counted(frame: pl.DataFrame) -> Rows:
    return Counter(frame.rows())
