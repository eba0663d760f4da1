"""The queries of Nexmark on Spark give the rows that DuckDB has, as they do in a stream.

They read what the source itself makes, at a rate: a batch does not wait for it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.cli.pipeline_file import check_pipeline
from tests.support.nexmark import CONFIGS, EVENTS, QUERIES, output, step_us, wanted
from tests.support.spark.batches import batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY_EVENTS = {"q12": ("steps.as_they_come.window.time=event",)}
"""A batch has no processing time; the bids of all windows are as many."""


def overrides(config: Path) -> tuple[str, ...]:
    """This number of events of each source, as far apart as DuckDB has them."""
    sources = check_pipeline(str(config), ()).pipeline.sources
    values = (f"events={EVENTS}", f"rate={3_600_000_000 // step_us(config.stem)}/h")
    return tuple(f"sources.{name}.nexmark.{value}" for name in sources for value in values)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_the_rows_that_duckdb_has(
    quick: SparkSession, tmp_path: Path, query: str
) -> None:
    folder = shutil.copytree(CONFIGS, tmp_path / "configs" / "nexmark")
    config = folder / f"{query}.yaml"
    batch(quick, config, *overrides(config), *BY_EVENTS.get(query, ()))
    assert output(query, tmp_path) == wanted(query)
