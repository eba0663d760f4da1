"""Stopped jobs over memory: their state, and the rows they emit at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from headrace.core.api.state_backend import StateBackend
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.state_reader.keys import parse_key
from headrace.core.state_reader.step_states import StepStateReader
from headrace.core.types.elements import DELETE
from headrace.state.memory.backend import MemoryBackend
from headrace.state.savepoints.snapshot_lookup import StoredSnapshot, open_checkpoint
from headrace.state.storage.home import Home
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.runtime.changed_pipelines import pipeline
from tests.support.runtime.crashing_jobs import Fate, FlakyMemory, Life
from tests.support.runtime.faulty_disk import FaultyDisk

BEGIN = datetime(2026, 1, 31, 8, tzinfo=UTC)
COLUMNS = {
    "k": pl.Int64(),
    "s": pl.String(),
    "v": pl.Int64(),
    "x": pl.Float64(),
    "at": pl.Datetime("us", "UTC"),
}
PAUSE_S = 0.3
"""The pause between batches, with a checkpoint in each: so state consists of several frames."""

Row: TypeAlias = tuple[Any, ...]

ROWS: list[Row] = [
    *((1, "a", 1, 0.5, 0), (2, "b", 2, 1.0, 1), (1, "c", 3, 1.5, 2)),
    *((None, "a", 4, None, 3), (1, None, 1, float("nan"), 4), (2, "b", 7, -2.0, 7)),
]
"""k, s, v, x, and the seconds since the beginning."""


def rows(values: Sequence[Row]) -> pl.DataFrame:
    """Return input rows."""
    timed = [(*rest, BEGIN + timedelta(seconds=second)) for *rest, second in values]
    return pl.DataFrame(timed, COLUMNS, orient="row")


class Stopped:
    """A job that was stopped after these rows; `after` are the rows that follow."""

    def __init__(
        self,
        folder: Path,
        step: str,
        before: Sequence[Row] = ROWS,
        after: Sequence[Row] = (),
        *,
        parallelism: int = 1,
        cut: int = 2,
        backend: Callable[[], StateBackend] = MemoryBackend,
        on_disk: bool = False,
        more: str = "",
    ) -> None:
        """`more` are steps before the last one."""
        folder.mkdir(exist_ok=True)
        frame = rows(before)
        happening: list[pl.DataFrame | float] = []
        for at in range(0, frame.height, cut):
            happening += [frame.slice(at, cut), PAUSE_S]
        happening += [5.0, *([rows(after)] if after else [])]
        self.memory = FlakyMemory({"in": {"0": happening}})
        self.root = str(folder / "home")
        disk = FaultyDisk() if on_disk else MemoryDisk()
        self.home = Home(disk, self.root, "test")
        text = f"{pipeline(step, more)}settings: {{parallelism: {parallelism}}}\n"
        self._life = Life(
            folder,
            text,
            self.memory,
            CheckpointSchedule(interval_s=PAUSE_S),
            backend=backend,
            disk=disk,
            root=self.root,
        )
        assert self._life.run(1, Fate(stopped_at=1.0)).failure is None
        self.put_out = [*self.memory.outputs.get("out", [])]

    def end(self) -> list[pl.DataFrame]:
        """Resume the job to its end. Return the rows that it emits."""
        number = len(self.memory.outputs.get("out", []))
        assert self._life.run(2).failure is None
        return self.memory.outputs["out"][number:]

    @contextmanager
    def kept(self) -> Iterator[StoredSnapshot]:
        """Open its newest checkpoint."""
        with open_checkpoint(self.home) as kept:
            yield kept

    def read(self, state: str, *, key: str | None = None) -> pl.DataFrame:
        """Return the rows of a state of the step."""
        with self.kept() as kept:
            return read(kept, state, key=key)


def read(kept: StoredSnapshot, state: str, *, key: str | None = None) -> pl.DataFrame:
    """Return the rows of a state of the step `step`."""
    found: Any = kept.document
    step = StepStateReader.from_document("step", kept.document, kept.thaw_step("step"))
    assert not step.raw_reason
    of = None if key is None else parse_key(key, step.key, found["key_groups"])
    return pl.concat(step.read_rows(state, of=of))


def said(frame: pl.DataFrame) -> list[str]:
    """Return the rows as short texts: times are seconds since the beginning."""
    times = [name for name, type in frame.schema.items() if isinstance(type, pl.Datetime)]
    since = [(pl.col(name) - BEGIN).dt.total_seconds() for name in times]
    return [" ".join(map(_word, row)) for row in frame.with_columns(since).rows()]


def _word(value: object) -> str:
    return "-" if value is None else str(value)


def table(changes: Sequence[pl.DataFrame], key: Sequence[str]) -> list[Row]:
    """Return the table that a changelog maintains: the last row of each key, sorted."""
    last: dict[str, Row] = {}
    for row in (row for frame in changes for row in frame.rows(named=True)):
        gone = row.pop(DELETE, False)
        name = repr([row[column] for column in key])
        last[name] = tuple(row.values())
        if gone:
            del last[name]
    return sorted(last.values(), key=repr)
