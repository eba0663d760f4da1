"""Construction of a plan's subtasks: their operators, connectors, and the channels between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.api.run_context import RunContext
from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.splits import SubtaskId
from headrace.core.api.state import Document, FrozenState
from headrace.core.checkpoint.counters import PartCounters
from headrace.core.coordination.messages import (
    CoordinatorEvent,
    Deploy,
    RestoredState,
    Snapshot,
    WatermarkReport,
)
from headrace.core.dataflow.channel import Channel, ChannelBounds
from headrace.core.dataflow.input_gate import InputGate
from headrace.core.dataflow.latency import LatencyRecorder
from headrace.core.dataflow.operator_factory import (
    OperatorContext,
    SubtaskOperators,
    SubtaskSlice,
    compile_steps,
)
from headrace.core.dataflow.operator_task import OperatorTask, TaskOutput, run_task
from headrace.core.dataflow.output_edges import OutputEdge, share_partitioners
from headrace.core.dataflow.snapshotter import Snapshotter
from headrace.core.plan import nodes
from headrace.core.plan.layout import (
    enumerate_subtasks,
    find_origins,
    get_loop,
    has_clock_timers,
    list_timed_edges,
)
from headrace.core.plan.loop_bodies import list_inner_streams
from headrace.core.sources.source_task import SourceTask
from headrace.core.sources.watermarks import build_watermark_generator
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.channels import ChannelEnds
from headrace.core.worker.connectors import WorkerConnectors

if TYPE_CHECKING:
    from headrace.core.dataflow.lookup_task import LookupTask
    from headrace.core.dataflow.loop_task import LoopTask
    from headrace.core.operators.loop_head import LoopHead
    from headrace.core.operators.table_rounds import TableRoundsHead


def count_parts(
    subtask: Subtask, plan: nodes.Plan
) -> Iterator[tuple[nodes.PlanPart, PartCounters]]:
    """Yield the counters of each part of a subtask: rows out of one are rows in of the next."""
    compiled, rows = subtask.operators, subtask.operator_task.rows_in
    for name in subtask.task.parts:
        part, bad, rows_in = plan.part(name), 0, rows
        if subtask.source_task is not None and isinstance(part, nodes.Source):
            rows, bad = subtask.source_task.rows_in, subtask.source_task.bad_records
            rows_in = rows + bad
        if isinstance(part, nodes.Step):
            rows, bad = compiled.count_output_rows(part, rows), compiled.failed_rows.get(name, 0)
        yield part, PartCounters(rows_in, rows, bad)


def collect_counters(subtask: Subtask, plan: nodes.Plan) -> Document:
    """Return all counters of a subtask as plain data."""
    compiled = subtask.operators
    failed = compiled.failed_rows_before | {
        step: compiled.failed_rows_before.get(step, 0) + count
        for step, count in compiled.failed_rows.items()
    }
    windows = {step: compiled.sum_counters(step) for step in compiled.states}
    metrics = {step: c.metrics.to_document() for step, c in windows.items() if c.metrics}
    return {
        "parts": {
            p.name: [c.rows_in, c.rows_out, c.bad_rows] for p, c in count_parts(subtask, plan)
        },
        "failed": failed,
        "windows": {step: [counts.late, counts.unfilled] for step, counts in windows.items()},
    } | ({"metrics": metrics} if metrics else {})


RESTORE_THREADS = 2
"""The number of subtasks whose states are restored at the same time."""


@dataclass(slots=True)
class Subtask:
    """One subtask of a task: its components, and the coroutine that runs it."""

    id: SubtaskId
    task: nodes.Task
    operators: SubtaskOperators
    operator_task: OperatorTask
    gate: InputGate | None
    inputs: tuple[tuple[str, int], ...]
    """The stream and the side of each channel of the gate."""
    source_task: SourceTask | None
    now_us: Callable[[], int]
    lookup_task: LookupTask | None = None
    """Runs the subtask if its first step is a lookup."""
    loop_task: LoopTask | None = None
    """Runs the subtask if it is at the head of a loop."""

    async def run(self) -> Snapshot:
        """Process all elements, from the first to the end; return the final snapshot.

        Only if the job is drained, it includes the states.
        """
        if self.source_task is not None:
            await self.source_task.run()
        elif self.lookup_task is not None:
            await self.lookup_task.run()
        elif self.loop_task is not None:
            await self.loop_task.run()
        else:
            assert self.gate is not None
            await run_task(self.gate, self.inputs, self.operator_task, self.now_us)
        if self.operator_task.snapshotter is not None:
            # Its part in a checkpoint must be reported before its end is.
            await self.operator_task.snapshotter.wait_for_previous()
        snapshot = await self.operator_task.build_snapshot(
            self.source_task.progress_with_watermarks if self.source_task else None
        )
        if not self.operator_task.is_drained or self.operator_task.snapshotter is None:
            return snapshot
        await self.operator_task.flush_to_state()
        return replace(snapshot, states=await self.operator_task.snapshotter.store_states())

    async def close(self) -> None:
        """Release the states and the writer; output that was not prepared is dropped."""
        if self.operator_task.snapshotter is not None:
            await self.operator_task.snapshotter.close()
        if self.operator_task.output.writer is not None:
            await self.operator_task.output.writer.close()
        if self.loop_task is not None:
            self.loop_task.close()
        self.operators.close()


class SubtaskBuilder:
    """Builds the subtasks of a plan that run in this process."""

    def __init__(
        self,
        plan: nodes.Plan,
        connectors: WorkerConnectors,
        run_context: RunContext,
        bounds: ChannelBounds,
        operator_context: OperatorContext,
        store: SnapshotStore | None = None,
        *,
        channels: ChannelEnds,
        aligned: bool = True,
        changed: Collection[str] = (),
    ) -> None:
        """Without a store, subtasks take no part in checkpoints. `aligned`: exactly once.

        `changed`: the steps whose restored states must be migrated to the changed pipeline.
        """
        self.plan = plan
        self._connectors = connectors
        self._run_context = run_context
        self._operator_context = operator_context
        self._bounds = bounds
        self._store = store
        self._is_aligned = aligned
        self._changed_steps = changed
        self._tasks_by_part: Mapping[str, nodes.Task] = {
            name: task for task in plan.tasks for name in task.parts
        }
        self._channels = channels
        self._inputs = defaultdict[tuple[str, int], list[tuple[nodes.Edge, int, Channel]]](list)
        for (at, writer, reader), channel in channels.inputs.items():
            edge = plan.edges[at]
            self._inputs[edge.consumer, reader].append((edge, writer, channel))

    def build_subtasks(
        self, send: Callable[[CoordinatorEvent], None], deploy: Deploy
    ) -> list[Subtask]:
        """Build the subtasks to deploy, ready to run; `send` sends messages to the coordinator.

        Restoring states reads from a disk. Raises SnapshotError.
        """
        restored, own = deploy.restored, frozenset(deploy.subtasks)
        all_ = [
            (id, task) for task, ids in enumerate_subtasks(self.plan) for id in ids if id in own
        ]
        compiled = self._build_operators(
            all_, self._thaw_states(restored), is_restored=bool(restored.splits or restored.states)
        )
        for each in compiled:
            each.failed_rows_before.update(restored.failed_rows)
        return [
            self._build_subtask(id, task, send, each, restored)
            for (id, task), each in zip(all_, compiled, strict=True)
        ]

    def _build_operators(
        self,
        subtasks: Sequence[tuple[SubtaskId, nodes.Task]],
        states: Mapping[str, tuple[FrozenState, ...]],
        *,
        is_restored: bool,
    ) -> list[SubtaskOperators]:
        """Build the operators of each subtask.

        If there are states to restore, and threads, several are built at a time.
        """

        def compile_subtask(subtask: tuple[SubtaskId, nodes.Task]) -> SubtaskOperators:
            id, task = subtask
            parts = [self.plan.part(name) for name in task.parts]
            steps = [part for part in parts if isinstance(part, nodes.Step)]
            subtask_slice = SubtaskSlice(
                id.index,
                task.parallelism,
                self.plan.key_groups,
                states,
                is_restored,
                self._is_aligned,
            )
            return compile_steps(steps, self._operator_context, subtask_slice)

        if not states or self._run_context.kernel_executor.executor is None:
            return [compile_subtask(subtask) for subtask in subtasks]
        with ThreadPoolExecutor(RESTORE_THREADS) as pool:
            return list(pool.map(compile_subtask, subtasks))

    def _thaw_states(self, restored: RestoredState) -> dict[str, tuple[FrozenState, ...]]:
        """Return the states of the restored checkpoint, by step."""
        backend, store = self._operator_context.backend, self._store
        if store is None:
            return {}
        return {
            step: tuple(
                self._migrate_states(step, [backend.thaw(each, store) for each in documents])
            )
            for step, documents in restored.states.items()
        }

    def _migrate_states(self, step: str, states: Iterable[FrozenState]) -> Iterable[FrozenState]:
        if step not in self._changed_steps:
            return states
        # Loaded only for a changed pipeline, because it loads all aggregates.
        from headrace.core.operators.state_migration import migrate_state

        return [migrate_state(self.plan.part(step), self.plan, each) for each in states]

    def _is_internal(self, edge: nodes.Edge) -> bool:
        return self._tasks_by_part[edge.producer] is self._tasks_by_part[edge.consumer]

    def _build_subtask(
        self,
        id: SubtaskId,
        task: nodes.Task,
        send: Callable[[CoordinatorEvent], None],
        compiled: SubtaskOperators,
        restored: RestoredState,
    ) -> Subtask:
        task_parts = [self.plan.part(name) for name in task.parts]
        first, last_part = task_parts[0], task_parts[-1]
        output = self._build_output(
            task, last_part, id.index, restored.writers.get(last_part.name, ())
        )
        operator_task = OperatorTask(compiled.chain, output, self._run_context.kernel_executor)
        operator_task.snapshotter = self._build_snapshotter(id, task, compiled, send)
        source_task = self._build_source_task(
            first, operator_task, lambda at_us: send(WatermarkReport(id, at_us))
        )
        inputs, gate = self._build_gate(first, id.index)
        operator_task.has_clock_timers = any(map(has_clock_timers, task_parts))
        subtask = Subtask(
            id=id,
            task=task,
            operators=compiled,
            operator_task=operator_task,
            gate=gate if source_task is None else None,
            inputs=inputs,
            source_task=source_task,
            now_us=self._operator_context.now_us,
        )
        if compiled.lookup_join is not None and gate is not None:
            from headrace.core.dataflow.lookup_task import LookupTask

            subtask.lookup_task = LookupTask(
                gate,
                compiled.lookup_join,
                self._connectors.lookups[first.name],
                operator_task,
                compiled.chain_before_lookup,
                self._bounds.rows,
            )
        if compiled.loop_head is not None:
            subtask.loop_task = self._build_loop_task(subtask, first, compiled.loop_head, send)
        operator_task.collect_counts = lambda: collect_counters(subtask, self.plan)
        return subtask

    def _build_loop_task(
        self,
        subtask: Subtask,
        step: nodes.PlanPart,
        head: LoopHead | TableRoundsHead,
        send: Callable[[CoordinatorEvent], None],
    ) -> LoopTask:
        """Build what runs a subtask at the head of a loop."""
        from headrace.core.dataflow.loop_task import LoopTask
        from headrace.core.dataflow.table_rounds_task import TableRoundsTask

        loop = get_loop(step)
        assert isinstance(step, nodes.Step) and loop is not None and subtask.gate is not None
        _, feedback_gate = self._build_gate(step, subtask.id.index, feedback=True)
        kind = LoopTask if loop.table is None else TableRoundsTask
        gate, inputs = subtask.gate, subtask.inputs
        return kind(
            subtask.id, step, loop, gate, inputs, feedback_gate, head, subtask.operator_task, send
        )

    def _build_snapshotter(
        self,
        id: SubtaskId,
        task: nodes.Task,
        compiled: SubtaskOperators,
        send: Callable[[CoordinatorEvent], None],
    ) -> Snapshotter | None:
        """Build the snapshotter of a subtask; None without a snapshot store."""
        if self._store is None:
            return None
        executor = self._run_context.snapshot_executor or self._run_context.kernel_executor
        return Snapshotter(id, task.parts, compiled.states, self._store, executor, send)

    def _build_source_task(
        self,
        first: nodes.PlanPart,
        operator_task: OperatorTask,
        report: Callable[[int | None], None],
    ) -> SourceTask | None:
        if not isinstance(first, nodes.Source):
            return None
        readers = self._connectors.readers[first.name]
        reading = readers.create_reader()
        return SourceTask(
            first,
            reading,
            operator_task,
            self._operator_context.now_us,
            build_watermark_generator(
                first, reading, self._operator_context.folder, report, ordered=readers.is_ordered
            ),
            self._bounds,
            source_number=self.plan.parts.index(first),
        )

    def _build_gate(
        self, first: nodes.PlanPart, index: int, *, feedback: bool = False
    ) -> tuple[tuple[tuple[str, int], ...], InputGate]:
        """Build the gate of a subtask, with the stream and the side of each of its channels.

        With `feedback` it is that of the rows that come back to the head of a loop.
        """
        origins = find_origins(self.plan)
        into = [each for each in self._inputs[first.name, index] if each[0].is_feedback is feedback]
        inside = {
            loop: frozenset(at for at, (edge, *_) in enumerate(into) if edge.stream in streams)
            for loop, streams in list_inner_streams(self.plan, first.name, feedback=feedback)
        }
        timed = list_timed_edges(self.plan, first.name)
        gate = InputGate(
            [channel for *_, channel in into],
            aligned=self._is_aligned,
            timeless=frozenset(at for at, (edge, *_) in enumerate(into) if edge not in timed),
            origins=[origins[edge.producer][writer] for edge, writer, _ in into],
            loop_inputs=inside,
        )
        return tuple((edge.stream, edge.side) for edge, *_ in into), gate

    def _build_output(
        self, task: nodes.Task, last: nodes.PlanPart, index: int, writer_states: Sequence[Document]
    ) -> TaskOutput:
        edges_by_stream: dict[str, list[OutputEdge]] = {}
        for at, edge in enumerate(self.plan.edges):
            if edge.producer in task.parts and not self._is_internal(edge):
                edges_by_stream.setdefault(edge.stream, []).append(
                    self._build_edge(at, edge, index)
                )
        for each in edges_by_stream.values():
            share_partitioners(each)
        if isinstance(last, nodes.Sink):
            writer = self._connectors.writers[last.name].create_writer(index, writer_states)
            latencies = LatencyRecorder(self._operator_context.now_us)
            return TaskOutput(edges_by_stream, writer, last.input, last.name, latencies=latencies)
        return TaskOutput(edges_by_stream, None)

    def _build_edge(self, at: int, edge: nodes.Edge, index: int) -> OutputEdge:
        readers = range(self.plan.part(edge.consumer).parallelism)
        outputs = self._channels.outputs
        channels = {r: outputs[at, index, r] for r in readers if (at, index, r) in outputs}
        if edge.exchange == "forward":
            return OutputEdge("forward", [channels[index]], 0)
        return OutputEdge(
            edge.exchange,
            [channels[r] for r in readers],
            index,
            edge.key,
            self.plan.key_groups,
            self._run_context.kernel_executor,
        )
