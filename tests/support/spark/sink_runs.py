"""Batches of a pipeline in a folder, each in the pipeline's home, and what they have written."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headrace.cli.pipeline_file import check_pipeline
from headrace.connectors.registry import REGISTRY
from headrace.core.plan import nodes
from headrace.core.spark.batch_job import BatchOutcome, complete_previous_run, run_batch
from headrace.core.spark.executor_context import ExecutorContext
from headrace.state.backends import open_backend
from headrace.state.storage.batch_home import BatchHome, hold_batch_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.core.spark.committer import BatchCommitLog

SINCE = "2026-01-31T08:00:00Z"


class Killed(BaseException):
    """The end of a process, with the same leftovers as a killed one."""


@dataclass(slots=True)
class Doomed:
    """A home whose process is killed just before or just after it stores something."""

    home: BatchHome
    at: str
    """The call before or after which it dies: `record`, `finish` or `forget`."""
    after_call: bool

    def __getattr__(self, name: str) -> object:
        does = getattr(self.home, name)
        return partial(self._last, does) if name == self.at else does

    def _last(self, does: Callable[..., None], *what: object) -> None:
        if self.after_call:
            does(*what)
        raise Killed


@dataclass(slots=True)
class Batches:
    """One pipeline, run again and again."""

    folder: Path
    spark: SparkSession
    told: list[str] = field(default_factory=list)

    def run(self, text: str, *, fresh: bool = False) -> BatchOutcome | None:
        """Run a batch; None if only the previous run's commit had to be completed."""
        with self.home() as home:
            plan = self._plan(text)
            if complete_previous_run(*plan, home, self.told.append, fresh=fresh) is not None:
                home.clear_finished()
                return None
            outcome = run_batch(self.spark, *plan, self.told.append, home)
            home.clear_finished()
        return outcome

    def die(self, text: str, at: str = "record", *, after_call: bool) -> None:
        """Run it until it keeps that."""
        with self.home() as home:
            doomed = cast("BatchCommitLog", Doomed(home, at, after_call))
            try:
                run_batch(self.spark, *self._plan(text), self.told.append, doomed)
            except Killed:
                return
        raise AssertionError(f"it did not come to {at}")

    @contextmanager
    def home(self) -> Iterator[BatchHome]:
        """The home, held."""
        with hold_batch_home(str(self.folder / "home"), "p", SINCE) as home:
            yield home

    def _plan(self, text: str) -> tuple[nodes.Plan, ExecutorContext]:
        file = self.folder / "p.yaml"
        file.write_text(f"name: p\n{text}", "utf-8")
        checked = check_pipeline(str(file), ())
        plan = checked.plan
        assert plan is not None, checked.problems
        made = partial(open_backend, checked.pipeline.settings.state)
        streams = frozenset(edge.stream for edge in plan.edges)
        return plan, ExecutorContext("p", self.folder, "", REGISTRY, made, plan.key_groups, streams)

    def parts(self, folder: str = "out") -> list[Path]:
        """List all files in a folder and its subfolders, including hidden ones."""
        return sorted(path for path in (self.folder / folder).rglob("*") if path.is_file())

    def lines(self, folder: str = "out") -> list[str]:
        """The lines of all parts, sorted; there is nothing hidden."""
        found = []
        for part in self.parts(folder):
            assert not part.name.startswith("."), part
            data = part.read_bytes()
            found += (gzip.decompress(data) if part.suffix == ".gz" else data).decode().splitlines()
        return sorted(found)
