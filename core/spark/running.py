"""A batch: what there is to read is settled, sinks are written one by one, and all is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.blame import blamed
from headrace.core.ends import Ends, open_ends
from headrace.core.plan import nodes
from headrace.core.spark.build import Building
from headrace.core.spark.inside import Inside
from headrace.core.spark.planning import of_batch
from headrace.core.spark.reading import Piece, found
from headrace.core.spark.writing import Written, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a batch has done."""

    rows: Mapping[str, int]
    """How many rows each sink was given."""


def run_batch(
    spark: SparkSession,
    plan: nodes.Plan,
    inside: Inside,
    tell: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Run a plan once over all there is. Raises ConnectorError before anything is read."""
    plan = of_batch(plan)
    with asyncio.Runner() as runner, inside.surroundings() as surroundings:
        ends = open_ends(plan, inside.connectors, surroundings)
        try:
            pieces = runner.run(_begun(ends))
            written = _written(spark, plan, inside, pieces)
            runner.run(_committed(ends, written))
        finally:
            runner.run(ends.close())
    return Outcome({name: each.rows for name, each in written.items()})


async def _begun(ends: Ends) -> dict[str, list[Piece]]:
    """What there is to read, once it is known that output can be written."""
    await ends.check_sinks()
    pieces = {}
    for name, source in ends.sources.items():
        with blamed(name):
            pieces[name] = await found(source)
    return pieces


def _written(
    spark: SparkSession, plan: nodes.Plan, inside: Inside, pieces: Mapping[str, list[Piece]]
) -> dict[str, Written]:
    frames = Building(spark, plan, inside, pieces).build()
    written = {}
    for part in plan:
        if isinstance(part, nodes.Sink):
            spark.sparkContext.setJobDescription(f"sink {part.name}")
            schema = plan.streams[part.input].written
            written[part.name] = write(frames[part.name], part, schema, inside)
    return written


async def _committed(ends: Ends, written: Mapping[str, Written]) -> None:
    for name, each in written.items():
        with blamed(name):
            for handle in each.handles:
                await ends.sinks[name].commit(handle)
