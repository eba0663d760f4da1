"""The readable state of a class, from a job that was stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.state_reader.step_states import StepStateReader
from tests.core.operators.process.test_snapshots import step
from tests.support.stopped_jobs import Stopped, read, said

KNOWN = {
    "values": ("Totals", "total: k value", ["- 4", "1 5", "2 2"]),
    "maps": ("Fading", "ever: k key value", ["- 4 3", "1 1 4", "1 3 2", "2 2 1"]),
    "lists with a ttl": ("Fading", "recent: k row value until", ["1 1 3 5", "1 2 1 7"]),
    "rows that wait": ("Sessions", "held: k s v x at event_time", ["2 b 7 -2.0 7 7"]),
    "timers that came": ("Sessions", "over: k at", []),
    "what all keys share": ("Limited", "limits: key value", ["- 1", "a 4", "b 2", "c 3"]),
    "one value of all keys": ("Limited", "rules: value", ["5"]),
    "rules that wait": ("Limited", "held_right: k s v x at event_time", ["2 b 7 -2.0 7 7"]),
}


@pytest.mark.parametrize(("kind", "columns", "known"), KNOWN.values(), ids=KNOWN)
def test_what_a_class_keeps_is_read(
    tmp_path: Path, kind: str, columns: str, known: list[str]
) -> None:
    state, _, names = columns.partition(": ")
    number = "n: int" if kind == "Totals" else "n: bigint"
    rules = "broadcast: {rules: {from: rows, as: rules}}, " if kind == "Limited" else ""
    clauses = f"from: rows, {rules}{step(kind)}".replace("n: bigint", number)
    with Stopped(tmp_path, clauses).kept() as kept:
        found = read(kept, state)
        by = StepStateReader.from_document(
            "step", kept.document, kept.thaw_step("step")
        ).list_identity_columns(state)
    assert " ".join(found.columns) == names
    assert sorted(said(found)) == sorted(known)
    assert found.select(by).is_duplicated().sum() == 0
