"""The output at each checkpoint, held to the meaning of a plan over the rows before its barrier.

A checkpoint stores how far each split was read, so it is known which rows those are. Steps that
wait for watermarks have emitted less by then: they are compared at the end only.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.connectors.memory import InMemoryData, MemoryEvent, MemorySinkOptions
from headrace.core.api.snapshots import Manifest
from headrace.core.plan import nodes
from tests.support.reference.interpreter import interpret
from tests.support.runtime.committed_output import ended, shown

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

    def read_output(self, name: str, checkpoint: Checkpoint) -> InMemoryData:
        """Return a memory with what was committed under a name up to a checkpoint, as `out`."""
        frames = self.memory.outputs.get(name, [])
        return InMemoryData(outputs={"out": frames[: checkpoint.written.get(name, 0)]})

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


def waits_for_watermarks(plan: nodes.Plan) -> bool:
    """Whether a step emits rows only when the watermark has passed their time."""
    operations = [
        operation for part in plan if isinstance(part, nodes.Step) for operation in part.operations
    ]
    return any(
        (isinstance(each, nodes.WindowedOperation) and each.window is not None)
        or (isinstance(each, nodes.Dedup) and each.changes is None and each.uses_event_time)
        for each in operations
    )


def compare_sinks(
    plan: nodes.Plan, recorder: CheckpointRecorder, checkpoint: Checkpoint, inputs: Inputs
) -> None:
    """Compare the applied output of each sink of changes with the meaning of the plan."""
    wanted = interpret(plan, inputs)
    for part in plan:
        if isinstance(part, nodes.Sink):
            assert isinstance(part.options, MemorySinkOptions)
            stream = plan.streams[part.input]
            names = stream.schema.names
            found = ended(
                recorder.read_output(str(part.options.data), checkpoint), stream.kind, names
            )
            rows = Counter(shown(row.values[name] for name in names) for row in wanted[part.name])
            assert found == rows, (
                f"{part.name}, checkpoint {checkpoint.number}: "
                f"not {dict(found - rows)} but {dict(rows - found)}"
            )
