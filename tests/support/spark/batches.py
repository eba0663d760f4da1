"""Pipelines run in batch, on the session that tests share, and the rows that a run has written."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.main import run_command_line
from headrace.cli.pipeline_file import check_pipeline
from headrace.connectors.registry import REGISTRY
from headrace.core.spark.batch_job import BatchOutcome, run_batch
from headrace.core.spark.executor_context import ExecutorContext
from headrace.state.backends import open_backend
from tests.support.cli.shipped_pipelines import Row, ended, in_order, named, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JSON = ".jsonl"


def batch(spark: SparkSession, config: Path, *values: str) -> BatchOutcome:
    """Run a pipeline once over all there is."""
    checked = check_pipeline(str(config), values)
    plan = checked.plan
    assert plan is not None, checked.problems
    settings = checked.pipeline.settings
    inside = ExecutorContext(
        str(plan.name),
        config.parent,
        uuid.uuid4().hex,
        REGISTRY,
        partial(open_backend, settings.state),
        plan.key_groups,
        frozenset(edge.stream for edge in plan.edges),
    )
    return run_batch(spark, plan, inside)


def stream(config: Path, *values: str) -> None:
    """Run a pipeline as a stream, to its end."""
    words = [word for value in values for word in ("--set", value)]
    with ExitStack() as lasting:
        status = run_command_line(["run", str(config), "--fresh", "--quiet", *words], lasting)
    assert status == 0


def read_columns(folder: Path, *names: str) -> list[tuple[object, ...]]:
    """Read these columns of all JSON lines in a folder, sorted."""
    lines = [
        json.loads(line)
        for part in sorted(folder.glob("*.jsonl"))
        for line in part.read_text().splitlines()
    ]
    return sorted(tuple(line[name] for name in names) for line in lines)


@dataclass(frozen=True, slots=True)
class Output:
    """The rows that a run has written, by folder."""

    rows: dict[str, Counter[Row]]
    """Of changes those that are left."""
    lines: dict[str, list[bytes]]
    """The exact lines of JSON, sorted; neither changelogs nor dead letters, which have a time."""

    @classmethod
    def taken(cls, site: Path, changes: Mapping[str, tuple[str, ...]]) -> Output:
        """Take the contents of a site's folders, and empty them."""
        found = cls({}, {})
        for folder, files in _parts(site).items():
            rows = (_plain(row) for file in files for row in written(file))
            key = changes.get(folder)
            found.rows[folder] = Counter(rows if key is None else ended(rows, key))
            if files[0].suffix == JSON and key is None and not _letters(found.rows[folder]):
                found.lines[folder] = sorted(
                    line for file in files for line in file.read_bytes().splitlines()
                )
            for file in files:
                file.unlink()
        return found


def _letters(rows: Counter[Row]) -> bool:
    """Whether rows of JSON are of records that could not be read."""
    return any("raw" in named(row) for row in rows)


def _plain(row: Row) -> Row:
    """The row as something that can be counted: arrays in it by their text."""
    return tuple(
        (cell[0], json.dumps(cell[1]))
        if isinstance(cell, tuple) and isinstance(cell[1], list | dict)
        else cell
        for cell in row
    )


def _parts(site: Path) -> dict[str, list[Path]]:
    """The files that were written, by the folder that they are in."""
    found: dict[str, list[Path]] = {}
    for part in sorted(site.rglob("part-*"), key=in_order):
        folder = part.parent.relative_to(site).as_posix().removeprefix("build/")
        found.setdefault(folder, []).append(part)
    return found
