"""Full changelogs of random tables: they tell each change, in order, and give the table.

Thousands more: `python -m tests.core.operators.changelog.test_change_rows 5000`;
it prints the seed that fails.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData, MemorySink
from headrace.core.api.run_context import RunContext
from headrace.core.plan import nodes
from headrace.core.types.change_columns import CHANGE, SEQUENCE
from headrace.core.types.data_types import Schema
from tests.support.reference import random_tables
from tests.support.reference.interpreter import interpret
from tests.support.runtime import expected_rows
from tests.support.runtime.committed_output import Values, ended, shown
from tests.support.runtime.crashing_jobs import FlakyMemory

LIVES = 6
BOTH_SINKS = """\
  out: {from: step, memory: {data: out, changelog: full}}
  last: {from: step, memory: {data: last}}
"""


@dataclass(slots=True)
class CheckpointedMemory(FlakyMemory):
    """A memory that knows how much output was committed at each checkpoint."""

    checkpoints: list[dict[str, int]] = field(default_factory=list)

    def _open_sink(self, sink: nodes.Sink, schema: Schema, context: RunContext) -> MemorySink:
        made = InMemoryData._open_sink(self, sink, schema, context)
        return _ObservedSink(made.memory, made.name)


class _ObservedSink(MemorySink):
    def on_commits_recorded(self) -> None:
        memory = self.memory
        assert isinstance(memory, CheckpointedMemory)
        memory.checkpoints.append({name: len(rows) for name, rows in memory.outputs.items()})


@dataclass(slots=True)
class AppliedChanges:
    """The table that full changes give; each must fit the rows that are there."""

    names: tuple[str, ...]
    key: tuple[str, ...] | None
    """None: rows have no key, and are counted."""
    last: dict[Values, int] = field(default_factory=dict)
    """The highest number of each key."""
    rows: dict[Values, Counter[Values]] = field(default_factory=dict)

    def apply(self, frames: Sequence[pl.DataFrame]) -> None:
        """Apply the changes of a checkpoint, each key's in the order of their numbers."""
        changes = [row for frame in frames for row in frame.iter_rows(named=True)]
        for change in sorted(changes, key=lambda row: row[SEQUENCE]):
            row = shown(change[name] for name in self.names)
            key = row if self.key is None else shown(change[name] for name in self.key)
            assert self.last.get(key, 0) < change[SEQUENCE]
            self.last[key] = change[SEQUENCE]
            self._apply_change(change[CHANGE], self.rows.setdefault(key, Counter()), row)

    def _apply_change(self, kind: str, there: Counter[Values], row: Values) -> None:
        match kind:
            case "insert":
                assert self.key is None or not there.total()
                there[row] += 1
            case "update_after":
                assert self.key is not None and not there.total()
                there[row] += 1
            case "update_before":
                assert self.key is not None and there[row] == 1
                there[row] -= 1
            case "delete":
                assert there[row] > 0
                there[row] -= 1
            case _:
                raise AssertionError(kind)

    @property
    def table(self) -> Counter[Values]:
        """The rows that are there."""
        return sum(self.rows.values(), Counter[Values]())


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_full_changelog_gives_the_table_at_each_checkpoint(data: st.DataObject) -> None:
    survive(data)


def survive(data: st.DataObject) -> None:
    """Draw a query, rows, and what happens to it; compare its changelog at each checkpoint."""
    text, sides = expected_rows.of_two_inputs(data, random_tables.pipelines())
    text = text.replace("  out: {from: step, memory: {data: out}}\n", BOTH_SINKS)
    full = expected_rows.without_empty(sides)
    chance = random.Random(data.draw(st.integers(0, 9999)))
    memory = CheckpointedMemory(
        {expected_rows.DATA[n]: expected_rows.paced(rows, chance) for n, rows in full.items()}
    )
    text = expected_rows.in_parallel(data, text)
    plan, _ = expected_rows.survived(text, memory, chance, chance.randrange(LIVES))
    compare(plan, memory, full)


def compare(plan: nodes.Plan, memory: CheckpointedMemory, came: dict[str, Any]) -> None:
    """Hold the changelog to the other sink's rows, and at the end to what the plan means."""
    stream = plan.streams["step"]
    assert not isinstance(stream.kind, nodes.Append)
    names = stream.schema.names
    changes, done = AppliedChanges(names, stream.kind.key), 0
    last = plan.part("last")
    assert isinstance(last, nodes.Sink)
    kind = plan.streams[last.input].kind
    outputs = memory.outputs
    whole = {name: len(frames) for name, frames in outputs.items()}
    for written in (*memory.checkpoints, whole):
        changes.apply(outputs.get("out", [])[done : written.get("out", 0)])
        done = written.get("out", 0)
        before = InMemoryData(outputs={"out": outputs.get("last", [])[: written.get("last", 0)]})
        assert changes.table == ended(before, kind, names)
    wanted = interpret(plan, came)["last"]
    assert changes.table == Counter(shown(row.values[name] for name in names) for row in wanted)


if __name__ == "__main__":
    expected_rows.more(survive, sys.argv[1:])
