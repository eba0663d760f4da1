"""Construction of a plan's subtasks: their operators, connectors, and the channels between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from headrace.core.channel import Bounds, Channel
from headrace.core.compile import Compiled, Seat, Setting, compile_steps
from headrace.core.contracts import Surroundings
from headrace.core.ends import Ends, by_task
from headrace.core.freezing import Freezer
from headrace.core.gate import Gate
from headrace.core.intake import Intake
from headrace.core.lookup.relay import Relay
from headrace.core.messages import (
    Restored,
    Snapshot,
    SubtaskId,
    ToCoordinator,
    WatermarkReport,
)
from headrace.core.outlets import Outlet, share
from headrace.core.plan import nodes
from headrace.core.plan.layout import two_sided
from headrace.core.snapshots import SnapshotStore
from headrace.core.state import Document, Frozen
from headrace.core.tally import tally
from headrace.core.task import Flow, Foot, relay
from headrace.core.timing import timing

TOGETHER = 2
"""The number of subtasks whose states are restored at the same time."""


@dataclass(slots=True)
class Subtask:
    """One subtask of a task: its components, and the coroutine that runs it."""

    id: SubtaskId
    task: nodes.Task
    compiled: Compiled
    flow: Flow
    gate: Gate | None
    inputs: tuple[tuple[str, int], ...]
    """The stream and the side of each channel of the gate."""
    intake: Intake | None
    now_us: Callable[[], int]
    lookup: Relay | None = None
    """Runs the subtask if its first step is a lookup."""
    keeps_end: bool = False
    """Whether the final snapshot includes the states; only a job that is drained needs them."""

    async def run(self) -> Snapshot:
        """Process all elements, from the first to the end; return the final snapshot."""
        if self.intake is not None:
            await self.intake.pump()
        elif self.lookup is not None:
            await self.lookup.run()
        else:
            assert self.gate is not None
            await relay(self.gate, self.inputs, self.flow, self.now_us)
        if self.flow.freezer is not None:
            # Its part in a checkpoint must be reported before its end is.
            await self.flow.freezer.ready()
        snapshot = await self.flow.snapshot(self.intake.splits if self.intake else None)
        if not self.keeps_end or self.flow.freezer is None:
            return snapshot
        await self.flow.settle()
        return replace(snapshot, states=await self.flow.freezer.stored())

    async def close(self) -> None:
        """Release the states and the writer; output that was not prepared is dropped."""
        if self.flow.freezer is not None:
            await self.flow.freezer.close()
        if self.flow.foot.writer is not None:
            await self.flow.foot.writer.close()
        self.compiled.close()


class Assembly:
    """Builds all subtasks of a plan within one process."""

    def __init__(
        self,
        plan: nodes.Plan,
        connectors: Ends,
        run_context: Surroundings,
        bounds: Bounds,
        operator_context: Setting,
        store: SnapshotStore | None = None,
        *,
        aligned: bool = True,
        changed: Collection[str] = (),
    ) -> None:
        """Without a store, subtasks take no part in checkpoints. `aligned`: exactly once.

        `changed`: the steps whose restored states must be migrated to the changed pipeline.
        """
        self.plan = plan
        self._ends = connectors
        self._surroundings = run_context
        self._setting = operator_context
        self._bounds = bounds
        self._store = store
        self._aligned = aligned
        self._changed = changed
        self._tasks: Mapping[str, nodes.Task] = {
            name: task for task in plan.tasks for name in task.parts
        }
        self._channels = {
            (at, writer, reader): Channel(bounds)
            for at, edge in enumerate(plan.edges)
            if not self._inside(edge)
            for writer in range(plan.part(edge.producer).parallelism)
            for reader in range(plan.part(edge.consumer).parallelism)
            if edge.exchange != "forward" or writer == reader
        }

    @property
    def channels(self) -> Mapping[tuple[int, int, int], Channel]:
        """The channels by edge, writing subtask and reading subtask."""
        return self._channels

    def subtasks(self, send: Callable[[ToCoordinator], None], restored: Restored) -> list[Subtask]:
        """Build every subtask, ready to run; `send` sends messages to the coordinator.

        Restoring states reads from a disk. Raises SnapshotError.
        """
        all_ = [(id, task) for task, ids in by_task(self.plan) for id in ids]
        compiled = self._compiled(all_, self._thawed(restored))
        for each in compiled:
            each.failed_before.update(restored.failed)
        return [
            self._subtask(id, task, send, each, restored)
            for (id, task), each in zip(all_, compiled, strict=True)
        ]

    def _compiled(
        self,
        subtasks: Sequence[tuple[SubtaskId, nodes.Task]],
        states: Mapping[str, tuple[Frozen, ...]],
    ) -> list[Compiled]:
        """Build the operators of each subtask, several at a time if there are states to restore."""

        def compiled(subtask: tuple[SubtaskId, nodes.Task]) -> Compiled:
            id, task = subtask
            parts = [self.plan.part(name) for name in task.parts]
            steps = [part for part in parts if isinstance(part, nodes.Step)]
            subtask_slice = Seat(id.index, task.parallelism, self.plan.key_groups, states)
            return compile_steps(steps, self._setting, subtask_slice)

        if not states:
            return [compiled(subtask) for subtask in subtasks]
        with ThreadPoolExecutor(TOGETHER) as pool:
            return list(pool.map(compiled, subtasks))

    def _thawed(self, restored: Restored) -> dict[str, tuple[Frozen, ...]]:
        """Return the states of the restored checkpoint, by step."""
        backend, store = self._setting.backend, self._store
        if store is None:
            return {}
        return {
            step: tuple(self._fitted(step, [backend.thawed(each, store) for each in documents]))
            for step, documents in restored.states.items()
        }

    def _fitted(self, step: str, states: Iterable[Frozen]) -> Iterable[Frozen]:
        if step not in self._changed:
            return states
        # Loaded only for a changed pipeline, because it loads all aggregates.
        from headrace.core.operators.fitted import fitted

        return [fitted(self.plan.part(step), self.plan, each) for each in states]

    def _inside(self, edge: nodes.Edge) -> bool:
        return self._tasks[edge.producer] is self._tasks[edge.consumer]

    def _subtask(
        self,
        id: SubtaskId,
        task: nodes.Task,
        send: Callable[[ToCoordinator], None],
        compiled: Compiled,
        restored: Restored,
    ) -> Subtask:
        first, last_part = self.plan.part(task.parts[0]), self.plan.part(task.parts[-1])
        writer_states = restored.writers.get(last_part.name, ())
        flow = Flow(
            compiled.chain,
            self._foot(task, last_part, id.index, writer_states),
            self._surroundings.bench,
        )
        if self._store is not None:
            archive = self._surroundings.archive or self._surroundings.bench
            flow.freezer = Freezer(id, task.parts, compiled.states, self._store, archive, send)
        source_task = self._intake(first, flow, lambda at_us: send(WatermarkReport(id, at_us)))
        inputs, gate = self._gate(first, id.index)
        subtask = Subtask(
            id=id,
            task=task,
            compiled=compiled,
            flow=flow,
            gate=gate if source_task is None else None,
            inputs=inputs,
            intake=source_task,
            now_us=self._setting.now_us,
        )
        if compiled.lookup is not None and gate is not None:
            client = self._ends.lookups[first.name]
            max_rows = self._bounds.rows
            subtask.lookup = Relay(gate, compiled.lookup, client, flow, compiled.before, max_rows)
        flow.counts = lambda: tally(subtask, self.plan)
        return subtask

    def _intake(
        self, first: nodes.PlanPart, flow: Flow, report: Callable[[int | None], None]
    ) -> Intake | None:
        if not isinstance(first, nodes.Source):
            return None
        opened = self._ends.sources[first.name]
        reading = opened.reading()
        return Intake(
            first,
            reading,
            flow,
            self._setting.now_us,
            timing(first, reading, self._setting.folder, report, ordered=opened.ordered),
            self._bounds,
            number=self.plan.parts.index(first),
        )

    def _gate(self, first: nodes.PlanPart, index: int) -> tuple[tuple[tuple[str, int], ...], Gate]:
        """Build the gate of a subtask, with the stream and the side of each of its channels."""
        edges, streams = self.plan.edges, self.plan.streams
        into = [
            (edges[at], channel)
            for (at, _, reader), channel in self._channels.items()
            if reader == index and edges[at].consumer == first.name
        ]
        timeless: frozenset[int] = frozenset()
        if two_sided(first):
            timed = [streams[edge.stream].timed for edge, _ in into]
            timeless = frozenset(at for at, has in enumerate(timed) if not has and any(timed))
        gate = Gate([channel for _, channel in into], aligned=self._aligned, timeless=timeless)
        return tuple((edge.stream, edge.side) for edge, _ in into), gate

    def _foot(
        self, task: nodes.Task, last: nodes.PlanPart, index: int, writer_states: Sequence[Document]
    ) -> Foot:
        edges_by_stream: dict[str, list[Outlet]] = {}
        for at, edge in enumerate(self.plan.edges):
            if edge.producer in task.parts and not self._inside(edge):
                edges_by_stream.setdefault(edge.stream, []).append(self._outlet(at, edge, index))
        for each in edges_by_stream.values():
            share(each)
        if isinstance(last, nodes.Sink):
            writer = self._ends.sinks[last.name].writer(index, writer_states)
            return Foot(edges_by_stream, writer, last.input, last.name)
        return Foot(edges_by_stream, None)

    def _outlet(self, at: int, edge: nodes.Edge, index: int) -> Outlet:
        readers = range(self.plan.part(edge.consumer).parallelism)
        channels = {
            r: self._channels[at, index, r] for r in readers if (at, index, r) in self._channels
        }
        if edge.exchange == "forward":
            return Outlet("forward", [channels[index]], 0)
        return Outlet(
            edge.exchange,
            [channels[r] for r in readers],
            index,
            edge.key,
            self.plan.key_groups,
            self._surroundings.bench,
        )
