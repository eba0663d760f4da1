"""The output at each checkpoint, held to the meaning of a plan over the rows before its barrier.

A checkpoint stores how far each split was read, so it is known which rows those are. Steps that
wait for watermarks have emitted less by then: they are compared at the end only.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from headrace.connectors.memory import InMemoryData, MemoryEvent, MemorySinkOptions
from headrace.core.api.snapshots import Manifest
from headrace.core.plan import nodes
from headrace.core.testing.reference.interpreter import interpret
from headrace.core.types.change_columns import CHANGE, SEQUENCE
from tests.support.runtime.committed_output import Values, ended, shown
from tests.support.runtime.memory_pipelines import plan_of

Inputs = Mapping[str, Sequence[Sequence[dict[str, Any]]]]
"""The rows of each split of each source."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was read and committed up to a checkpoint."""

    number: int
    positions: Mapping[str, Mapping[str, int]]
    """By source and split: how many of its events were read."""
    written: Mapping[str, int]
    """By the name of the data: how many batches were committed."""


@dataclass(slots=True)
class CheckpointRecorder:
    """Records each checkpoint when its output is committed (`Life.on_committed`)."""

    memory: InMemoryData
    checkpoints: list[Checkpoint] = field(default_factory=list)

    def record(self, manifest: Manifest) -> None:
        """Record a checkpoint by its manifest."""
        document: Any = manifest
        positions = {
            source: {each["split"]: each["position"] or 0 for each in splits}
            for source, splits in document["sources"].items()
        }
        written = {name: len(frames) for name, frames in self.memory.outputs.items()}
        self.checkpoints.append(Checkpoint(len(self.checkpoints), positions, written))

    @property
    def end(self) -> Checkpoint:
        """All that was read and committed."""
        positions = {
            name: {split: len(events) for split, events in splits.items()}
            for name, splits in self.memory.inputs.items()
        }
        written = {name: len(frames) for name, frames in self.memory.outputs.items()}
        return Checkpoint(-1, positions, written)

    def draw(self, chance: random.Random, most: int) -> Iterator[Checkpoint]:
        """Draw some of the checkpoints that differ from each other."""
        distinct = {repr((each.positions, each.written)): each for each in self.checkpoints}
        some = [*distinct.values()]
        yield from chance.sample(some, min(most, len(some)))

    def read_output(self, name: str, checkpoint: Checkpoint) -> list[pl.DataFrame]:
        """Return what was committed under a name up to a checkpoint."""
        return self.memory.outputs.get(name, [])[: checkpoint.written.get(name, 0)]

    def list_written(self, name: str) -> list[int]:
        """Return how many batches were committed under a name at each checkpoint."""
        return [each.written.get(name, 0) for each in self.checkpoints]

    def read_input(self, data: Mapping[str, str], came: Inputs, at: Checkpoint) -> Inputs:
        """Return the rows before a checkpoint; `data` is what each source's rows are called."""
        before: dict[str, Sequence[Sequence[dict[str, Any]]]] = {}
        for source, splits in came.items():
            events, read = self.memory.inputs[data[source]], at.positions.get(source, {})
            counts = [_count_rows(events[str(n)], read.get(str(n), 0)) for n in range(len(splits))]
            before[source] = [rows[:count] for rows, count in zip(splits, counts, strict=True)]
        return before


def _count_rows(events: Sequence[MemoryEvent], position: int) -> int:
    return sum(each.height for each in events[:position] if not isinstance(each, float | int))


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
        self.apply_rows(row for frame in frames for row in frame.iter_rows(named=True))

    def apply_rows(self, changes: Iterable[Mapping[str, Any]]) -> None:
        """Apply changes, each key's in the order of their numbers."""
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


def add_full_sinks(text: str) -> str:
    """Add a sink with a full changelog for each stream of changes that is written."""
    with TemporaryDirectory() as folder:
        plan = plan_of(Path(folder), text, {"memory": InMemoryData().build_connector()})
    for sink in [part for part in plan if isinstance(part, nodes.Sink)]:
        if not isinstance(plan.streams[sink.input].kind, nodes.Append):
            lines = text.splitlines(keepends=True)
            (line,) = (each for each in lines if each.startswith(f"  {sink.name}: {{from: "))
            full = f"{line[:-3]}, changelog: full}}}}\n".replace(sink.name, f"{sink.name}_full")
            text = text.replace(line, f"{line}{full}")
    return text


def waits_for_watermarks(plan: nodes.Plan) -> bool:
    """Whether a step emits rows only when the watermark has passed their time."""
    return bool(find_waiting_parts(plan))


def find_waiting_parts(plan: nodes.Plan) -> set[str]:
    """Return the parts whose rows come only when the watermark has passed their time."""
    waiting = set[str]()
    for part in plan:
        operations = part.operations if isinstance(part, nodes.Step) else ()
        inputs = {edge.producer for edge in plan.edges if edge.consumer == part.name}
        if any(map(_waits, operations)) or inputs & waiting:
            waiting.add(part.name)
    return waiting


def _waits(operation: nodes.Operation) -> bool:
    if isinstance(operation, nodes.Dedup):
        return operation.changes is None and operation.uses_event_time
    is_windowed = isinstance(operation, nodes.WindowedOperation) and operation.window is not None
    return is_windowed or isinstance(operation, nodes.Over)


def compare_sinks(
    plan: nodes.Plan, recorder: CheckpointRecorder, checkpoint: Checkpoint, inputs: Inputs
) -> None:
    """Compare the applied output of each sink with the meaning of the plan."""
    wanted = interpret(plan, inputs)
    for sink in plan:
        if isinstance(sink, nodes.Sink):
            names, found = apply_output(plan, sink, recorder, checkpoint)
            rows = Counter(shown(row.values[name] for name in names) for row in wanted[sink.name])
            assert found == rows, (
                f"{sink.name}, checkpoint {checkpoint.number}: "
                f"not {dict(found - rows)} but {dict(rows - found)}"
            )


def apply_output(
    plan: nodes.Plan, sink: nodes.Sink, recorder: CheckpointRecorder, checkpoint: Checkpoint
) -> tuple[tuple[str, ...], Counter[Values]]:
    """Return the columns of a stream, and its rows as a sink has written them."""
    assert isinstance(sink.options, MemorySinkOptions)
    name = str(sink.options.data)
    if sink.options.changelog == "last":
        stream = plan.streams[sink.input]
        output = InMemoryData(outputs={"out": recorder.read_output(name, checkpoint)})
        return stream.schema.names, ended(output, stream.kind, stream.schema.names)
    stream = plan.streams[sink.input.removesuffix("@changes")]
    assert not isinstance(stream.kind, nodes.Append)
    changes, done = AppliedChanges(stream.schema.names, stream.kind.key), 0
    frames = recorder.read_output(name, checkpoint)
    for end in (*recorder.list_written(name), len(frames)):
        changes.apply(frames[done:end])
        done = max(done, end)
    return stream.schema.names, changes.table
