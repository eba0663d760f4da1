"""The final result of a step over rows as a stream, and Spark's result."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl

from headrace.connectors.memory import InMemoryData
from headrace.core.dataflow.operator_factory import OperatorContext, SubtaskSlice, compile_steps
from headrace.core.plan import nodes
from headrace.core.plan.nodes import Plan
from headrace.core.spark.batch_plan import to_batch_plan
from headrace.core.spark.columns import Columns, columns_after_operation, format_ddl, stream_columns
from headrace.core.spark.dataframe_operations import apply_keyed
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, MAX_WATERMARK_US
from headrace.core.types.row_order import add_row_order
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.memory_pipelines import plan_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def planned(schema: str, clauses: str, event_time: str = ", event_time: at") -> Plan:
    """The plan of one step over rows with an event time `at`; as batches have it, so in order."""
    text = (
        f"sources:\n  rows: {{memory: {{data: in}}, schema: {schema}{event_time}}}\n"
        f"steps:\n  step: {{from: rows, {clauses}}}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )
    with TemporaryDirectory() as folder:
        return to_batch_plan(
            plan_of(Path(folder), text, {"memory": InMemoryData({}).build_connector()})
        )


def operation_of(plan: Plan) -> nodes.KeyedOperation:
    """The operation of its step."""
    (operation,) = step_of(plan).operations
    assert isinstance(operation, nodes.KeyedOperation)
    return operation


def step_of(plan: Plan) -> nodes.Step:
    """Its step."""
    step = plan.part("step")
    assert isinstance(step, nodes.Step)
    return step


def hidden(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with what travels with them: their time, and their place."""
    return add_row_order(rows.with_columns(pl.col("at").alias(EVENT_TIME)), pl.int_range(pl.len()))


def streamed(plan: Plan, rows: pl.DataFrame, luck: random.Random) -> pl.DataFrame:
    """Return the final result of a stream of these rows, in chunks of any size."""
    step = step_of(plan)
    setting = OperatorContext(lambda: 0, Path(), frozenset({"step"}), MemoryBackend())
    compiled = compile_steps((step,), setting, SubtaskSlice(0, 1, plan.key_groups))
    chain = compiled.chain
    assert chain is not None
    types = {name: to_polars(type) for name, type in wanted(plan).items()}
    frames = [pl.DataFrame(schema={**types, DELETE: pl.Boolean})]
    for piece in cut(hidden(rows).select(*stream_columns(plan.streams["rows"])), luck):
        frames += [frame for name, frame in chain.process(piece) if name == "step"]
    frames += [frame for name, frame in chain.advance(MAX_WATERMARK_US) if name == "step"]
    compiled.close()
    found = pl.concat(frames, how="diagonal").select(*types, DELETE)
    kind = plan.streams["step"].kind
    if isinstance(kind, nodes.Upsert):
        found = found.unique(kind.key, keep="last") if kind.key else found.tail(1)
    return found.filter(pl.col(DELETE).fill_null(False).not_()).drop(DELETE)


def cut(rows: pl.DataFrame, luck: random.Random) -> Iterator[pl.DataFrame]:
    """The rows in pieces."""
    at = 0
    while at < rows.height:
        size = luck.choice([1, 7, 100, 1000])
        yield rows.slice(at, size)
        at += size


def wanted(plan: Plan) -> Columns:
    """The columns of the step's rows."""
    source = stream_columns(plan.streams["rows"])
    return columns_after_operation(operation_of(plan), source, plan.streams["step"].has_row_order)


def made(spark: SparkSession, plan: Plan, rows: pl.DataFrame) -> DataFrame:
    """The rows, as Spark has them after the source."""
    columns = stream_columns(plan.streams["rows"])
    return spark.createDataFrame(hidden(rows).select(*columns).to_arrow(), format_ddl(columns))


def natively(frame: DataFrame, plan: Plan) -> DataFrame | None:
    """Return Spark's result, if Spark can run the step."""
    return apply_keyed(frame, operation_of(plan), wanted(plan))
