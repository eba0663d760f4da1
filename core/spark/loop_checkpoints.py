"""Stored rounds of the loops of a batch: a later run resumes after them if this one is killed.

The tables of a round are written as Parquet files, from which Spark reads them without computing
the rounds before. The record that names them is written last, into the home of the batch, so a
round is stored as a whole or not at all. It counts only for the same pipeline over the same input.

    folder / head / round / table / part-*.parquet

The folder is `spark.checkpoint.dir` if that is set. Else it is in the home, which executors on
other machines do not see: there no round is stored.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.core.checkpoint.manifest import describe_parts
from headrace.core.errors import failpoints
from headrace.core.plan import nodes
from headrace.core.plan.loop_bodies import list_loops
from headrace.core.spark.code_archive import find_user_files
from headrace.core.spark.committer import BatchCommitLog
from headrace.core.spark.parquet_scan import is_scannable
from headrace.core.spark.settings import is_on_this_machine
from headrace.core.spark.sources import SourceInput
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER_SETTING = "spark.checkpoint.dir"


@dataclass(frozen=True, slots=True)
class StoredRound:
    """The tables of a loop after a round."""

    number: int
    tables: Mapping[str, DataFrame]
    rows_changed: int | None = None
    """The rows that the rounds so far have added or removed; None: they are not counted, or the
    round was stored before they were."""


@dataclass(slots=True)
class LoopCheckpoints:
    """The stored rounds of all loops of a batch."""

    spark: SparkSession
    log: BatchCommitLog
    every_s: float | None
    """The least time between two stored rounds; None: none is stored."""
    report: Callable[[str], None]
    folder: str = ""
    """The address of the folder; empty: no round is stored."""
    _fingerprint: str = ""
    _loops: dict[str, Any] = field(default_factory=dict)
    """The record of each loop's round, by the name of its head."""
    _stored_at_s: float = field(default_factory=time.monotonic)

    def open(self, plan: nodes.Plan, inputs: Mapping[str, SourceInput], folder: Path) -> None:
        """Find the rounds that an earlier run has stored. `folder` is the pipeline's.

        Raises SnapshotError.
        """
        loops = list_loops(plan)
        if not loops:
            return
        self._fingerprint = _compute_fingerprint(plan, inputs, folder)
        record: Any = self.log.read_rounds()
        if record is not None and record["fingerprint"] == self._fingerprint:
            self._loops = dict(record["loops"])
        elif record is not None:
            self.report("the pipeline or its input has changed since: loops begin with round 1")
        if self.every_s is not None:
            self.folder = self._choose_folder(loops[0][0].name)
        if self.folder and not self._loops:
            self._remove(self.folder)

    def restore(self, head: str) -> StoredRound | None:
        """Return the stored round of a loop, if there is one whose files are there."""
        record = self._loops.get(head)
        if record is None:
            return None
        path, number = record["path"], record["round"]
        if self._measure(path) != record["bytes"]:
            self.report(f"loop {head}: {path} is damaged, so it begins with round 1")
            return None
        self.report(f"loop {head} resumes after round {number}, which an earlier run has stored")
        # The files are removed when a later round is stored.
        tables = {name: self.spark.read.parquet(f"{path}/{name}") for name in record["tables"]}
        restored = {n: rows.localCheckpoint() for n, rows in tables.items()}
        return StoredRound(number, restored, record.get("rows_changed"))

    @property
    def is_due(self) -> bool:
        """Whether it is time to store a round."""
        if not self.folder or self.every_s is None:
            return False
        return time.monotonic() - self._stored_at_s >= self.every_s

    def store(self, head: str, round: StoredRound) -> None:
        """Store a round, if it is time."""
        if not self.is_due:
            return
        path, before = f"{self.folder}/{head}/{round.number}", self._loops.get(head)
        for name, rows in round.tables.items():
            rows.write.mode("overwrite").parquet(f"{path}/{name}")
        self._loops[head] = {
            "round": round.number,
            "path": path,
            "tables": list(round.tables),
            "bytes": self._measure(path),
            "rows_changed": round.rows_changed,
        }
        failpoints.failpoint("loop.written")
        self.log.record_rounds({"fingerprint": self._fingerprint, "loops": self._loops})
        failpoints.failpoint("loop.stored")
        if before is not None and before["path"] != path:
            self._remove(before["path"])
        self._stored_at_s = time.monotonic()

    def close(self) -> None:
        """Remove all stored rounds: the output of the batch is committed."""
        if self.folder:
            self._remove(self.folder)

    def _choose_folder(self, head: str) -> str:
        context, path = self.spark.sparkContext, self.log.rounds_folder
        if shared := context.getConf().get(FOLDER_SETTING):
            return f"{shared.rstrip('/')}/headrace-{self.log.job}"
        if not path:
            return ""
        if is_on_this_machine(str(context.master)) and is_scannable(path):
            return f"file://{path}"
        hint = f"--conf {FOLDER_SETTING}=URL names a folder that all executors see"
        if is_on_this_machine(str(context.master)):
            hint = f"Spark takes {path} for a pattern: name another --home"
        self.report(f"loop {head} begins with round 1 if this run is killed: {hint}")
        return ""

    def _open_file_system(self, path: str) -> tuple[Any, Any]:
        jvm = self.spark.sparkContext._jvm
        assert jvm is not None
        where = jvm.org.apache.hadoop.fs.Path(path)
        return where.getFileSystem(self.spark._jsparkSession.sessionState().newHadoopConf()), where

    def _remove(self, path: str) -> None:
        system, where = self._open_file_system(path)
        system.delete(where, True)

    def _measure(self, path: str) -> int:
        """Return the size of all files in a folder; -1 if there is none."""
        system, where = self._open_file_system(path)
        return int(system.getContentSummary(where).getLength()) if system.exists(where) else -1


def _compute_fingerprint(plan: nodes.Plan, inputs: Mapping[str, SourceInput], folder: Path) -> str:
    """Return a text that is the same for the same pipeline over the same input."""
    parts = [part for part in plan if not isinstance(part, nodes.Sink)]
    described = describe_parts(plan)
    clauses = [(part.name, described[part.name]) for part in parts]
    streams = [(s.name, str(s.schema)) for part in parts for s in part.outputs]
    splits = {name: each.splits for name, each in inputs.items()}
    code = {name: path.read_bytes() for name, path in find_user_files(plan, folder)}
    found = repr((clauses, streams, splits, sorted(code.items())))
    return hashlib.sha256(found.encode()).hexdigest()
