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
from typing import Any, Literal

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData, MemorySink
from headrace.core.api.run_context import RunContext
from headrace.core.api.state_backend import StateOwnership
from headrace.core.operators.changelog.change_rows import (
    CountedChangesOperator,
    RetractionChangesOperator,
    UpsertChangesOperator,
)
from headrace.core.operators.operator import Operator
from headrace.core.plan import nodes
from headrace.core.plan.nodes import ChangelogConversion
from headrace.core.types.change_columns import CHANGE, SEQUENCE
from headrace.core.types.data_types import Schema
from headrace.core.types.elements import DELETE, WEIGHT
from headrace.state.memory.backend import MemoryBackend
from tests.support.reference import random_tables
from tests.support.reference.interpreter import interpret
from tests.support.runtime import expected_rows
from tests.support.runtime.changelogs import computed, place, schema_of
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


FIELDS = schema_of(id="int", v="double")


def conversion(output: Literal["retract", "upsert", "counted"]) -> ChangelogConversion:
    key = computed(FIELDS, *(("id", "v") if output == "counted" else ("id",)))
    return ChangelogConversion(key, output, FIELDS, has_event_time=False, form="full")


def changed(operator: Operator, *rows: tuple[int, float | None, object]) -> list[Values]:
    by_weight = all(type(row[2]) is int for row in rows)
    last = {WEIGHT: pl.Int64()} if by_weight else {DELETE: pl.Boolean()}
    frame = pl.DataFrame(rows, {"id": pl.Int32(), "v": pl.Float64(), **last}, orient="row")
    return [row for _, out in operator.process(frame) for row in out.rows()]


def test_upserts_are_written_with_the_rows_that_they_replace() -> None:
    operator = UpsertChangesOperator(conversion("retract"), place())
    assert changed(operator, (1, 1.0, False), (2, 5.0, False), (3, None, True)) == [
        (1, 1.0, "insert", 1),
        (2, 5.0, "insert", 2),
    ]
    assert changed(operator, (2, 5.0, False), (1, 9.0, False), (1, 2.0, False)) == [
        (1, 1.0, "update_before", 3),
        (1, 2.0, "update_after", 4),
    ]
    assert changed(operator, (3, 3.0, False), (1, None, True), (2, 6.0, False)) == [
        (1, 2.0, "delete", 5),
        (2, 5.0, "update_before", 6),
        (2, 6.0, "update_after", 7),
        (3, 3.0, "insert", 8),
    ]


def test_an_update_is_one_whichever_of_its_rows_comes_first() -> None:
    operator = RetractionChangesOperator(conversion("upsert"), place())
    assert changed(operator, (1, 1.0, 1)) == [(1, 1.0, "insert", 1)]
    assert changed(operator, (1, 2.0, 1)) == [
        (1, 1.0, "update_before", 2),
        (1, 2.0, "update_after", 3),
    ]
    assert changed(operator, (1, 1.0, -1)) == []
    assert changed(operator, (1, 2.0, -1), (1, 2.0, 1)) == []
    assert changed(operator, (1, 2.0, -1)) == [(1, 2.0, "delete", 4)]


def test_a_removal_that_comes_before_its_row_is_not_written() -> None:
    operator = CountedChangesOperator(conversion("counted"), place())
    assert changed(operator, (1, 1.0, -1), (2, None, 1)) == [(2, None, "insert", 1)]
    assert changed(operator, (1, 1.0, 2), (2, None, 1)) == [
        (1, 1.0, "insert", 2),
        (2, None, "insert", 3),
    ]
    assert changed(operator, (2, None, -2), (1, -0.0, -1)) == [
        (2, None, "delete", 4),
        (2, None, "delete", 5),
    ]
    assert changed(operator, (1, 0.0, 1)) == []


def test_numbers_rise_above_those_of_all_subtasks_before() -> None:
    owners = [StateOwnership("step", at, range(at * 4, at * 4 + 4), 8) for at in range(2)]
    states = [MemoryBackend().open_state(owner) for owner in owners]
    few, many = (UpsertChangesOperator(conversion("retract"), place(state)) for state in states)
    changed(few, (1, 1.0, False))
    for value in range(9):
        changed(many, (2, float(value), False))
    few.flush_to_state()
    many.flush_to_state()
    frozen = tuple(state.freeze() for state in states)
    both = MemoryBackend().open_state(StateOwnership("step", 0, range(8), 8, frozen))
    operator = UpsertChangesOperator(conversion("retract"), place(both))
    assert changed(operator, (3, 1.0, False)) == [(3, 1.0, "insert", 18)]


TABLES = [last for last in random_tables.LASTS if last is not random_tables.BY_WINDOW]
"""The clauses of last steps whose output is a table; that of windows is not."""


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_full_changelog_gives_the_table_at_each_checkpoint(data: st.DataObject) -> None:
    survive(data)


def survive(data: st.DataObject) -> None:
    """Draw a query, rows, and what happens to it; compare its changelog at each checkpoint."""
    pipelines = random_tables.pipelines(TABLES)
    text, sides = expected_rows.of_two_inputs(data, pipelines)
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
