"""The state of the steps in front of full changelogs, as rows for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.state_reader.keys import parse_key
from headrace.core.state_reader.step_states import StepStateReader
from headrace.state.savepoints.snapshot_lookup import open_checkpoint
from headrace.state.storage.home import Home
from tests.support.runtime.changed_pipelines import pipeline
from tests.support.runtime.crashing_jobs import Fate, FlakyMemory, Life
from tests.support.stopped_jobs import ROWS, rows, said

LATEST = "from: latest, where: true"
UNKEYED = "from: latest, select: {v: v, tags: 'array(s)'}"


@pytest.mark.parametrize(
    ("step", "state", "columns", "key", "known"),
    [
        (LATEST, "keys", "k s v x at", None, ["- a 4 - 3", "1 - 1 nan 4", "2 b 7 -2.0 7"]),
        (LATEST, "keys", "k s v x at", "k=2", ["2 b 7 -2.0 7"]),
        (UNKEYED, "rows", "v tags", None, ["1 [None]", "4 ['a']", "7 ['b']"]),
        (UNKEYED, "rows", "v tags", "v=4", ["4 ['a']"]),
        (LATEST, "sequence", "last_number", None, ["9"]),
        (UNKEYED, "sequence", "last_number", None, ["9"]),
    ],
)
def test_rows_of_a_state(
    tmp_path: Path, step: str, state: str, columns: str, key: str | None, known: list[str]
) -> None:
    frame = rows(ROWS)
    # A pause after each row: several changes of a key in one batch would be one.
    happening = [event for at in range(frame.height) for event in (frame.slice(at, 1), 0.1)]
    memory = FlakyMemory({"in": {"0": [*happening, 5.0]}})
    text = pipeline(step, "  latest: {from: rows, dedup: {key: k, keep: last}}\n").replace(
        "memory: {data: out", "memory: {changelog: full, data: out"
    )
    life = Life(tmp_path, text, memory, CheckpointSchedule(interval_s=0.3))
    assert life.run(1, Fate(stopped_at=2.0)).failure is None
    with open_checkpoint(Home(life.disk, life.root, "test")) as kept:
        reader = StepStateReader.from_document(
            "step@changes", kept.document, kept.thaw_step("step@changes")
        )
        assert not reader.raw_reason
        document: Any = kept.document
        of = None if key is None else parse_key(key, reader.key, document["key_groups"])
        found = pl.concat(reader.read_rows(state, of=of))
    assert " ".join(found.columns) == columns
    assert said(found.sort(found.columns[0])) == known
