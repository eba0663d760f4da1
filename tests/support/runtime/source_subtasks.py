"""A source alone: its subtasks, the coordinator, and what a reader of all subtasks receives.

On virtual time, in an order of tasks drawn from a seed. The elements come through real channels and
a real gate; messages between the coordinator and the subtasks are carried at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import polars as pl
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import SourceCoordinator
from headrace.core.api.splits import SubtaskId
from headrace.core.coordination.coordinator import Coordinator
from headrace.core.coordination.messages import (
    AssignSplits,
    CoordinatorAction,
    CoordinatorEvent,
    SetDriftLimit,
    SubtaskFinished,
    WatermarkReport,
)
from headrace.core.coordination.split_assignment import SplitAssigner
from headrace.core.coordination.watermark_alignment import WatermarkAlignment
from headrace.core.dataflow.channel import Channel, ChannelBounds
from headrace.core.dataflow.input_gate import InputGate
from headrace.core.dataflow.operator_task import OperatorTask, TaskOutput
from headrace.core.dataflow.output_edges import OutputEdge
from headrace.core.plan import nodes
from headrace.core.sources.source_task import SourceTask
from headrace.core.sources.watermarks import build_watermark_generator
from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.core.types.elements import Batch, Element, EndOfStream
from tests.support.runtime.memory_pipelines import plan_of

Seen: TypeAlias = "tuple[float, list[int] | Element]"
"""The time, and the seconds of the rows' event times, or a control element."""

TEXT = """
sources:
  s:
    memory: {{data: d{more}}}
    schema: {{at: timestamp}}
    event_time: at
    watermark: {{{watermark}}}
    on_error: skip
sinks: {{out: {{from: s, memory: {{data: d}}}}}}
"""
AT = pl.Datetime("us", "UTC")


def at(*seconds: int | None) -> pl.DataFrame:
    """Build rows with these event times."""
    values = [None if second is None else second * 1_000_000 for second in seconds]
    return pl.DataFrame({"at": pl.Series("at", values, pl.Int64).cast(AT)})


@st.composite
def disordered(draw: st.DrawFn) -> list[MemoryEvent]:
    """Chunks whose rows are at most 10 seconds late, with pauses between them."""
    happenings: list[MemoryEvent] = []
    highest = draw(st.integers(-50, 50))
    for _ in range(draw(st.integers(0, 6))):
        rows = [highest - draw(st.integers(0, 10)) for _ in range(draw(st.integers(1, 3)))]
        happenings += [at(*rows, highest), draw(st.sampled_from([0.0, 0.5, 7.0, 40.0]))]
        highest += draw(st.integers(0, 40))
    return happenings


class Alone:
    """A source over memory, with this number of subtasks."""

    def __init__(
        self,
        folder: Path,
        splits: Mapping[str, Sequence[MemoryEvent]],
        watermark: str = "",
        parallelism: int = 1,
        more: str = "",
        bounds: ChannelBounds | None = None,
    ) -> None:
        memory = InMemoryData({"d": splits}).build_connector()
        text = TEXT.format(watermark=watermark, more=more)
        node = plan_of(folder, text, {"memory": memory}).part("s")
        assert isinstance(node, nodes.Source)
        assert memory.source is not None and memory.source.open is not None
        self.node = node
        assert memory.source.open_readers is not None
        run_context = RunContext(folder, "0" * 32, KernelExecutor())
        self.source: SourceCoordinator = memory.source.open(node, run_context)
        link = CoordinatorLink(self.source.answer)
        self.readers = memory.source.open_readers(node, run_context, link)
        self.channels = [Channel(ChannelBounds()) for _ in range(parallelism)]
        self.ids = tuple(SubtaskId(0, index) for index in range(parallelism))
        self.coordinator = self._coordinator()
        self.bounds = bounds or ChannelBounds()
        self.folder = folder
        self.intakes: dict[SubtaskId, SourceTask] = {}
        self.later: dict[float, Callable[[], object]] = {}
        """The events, with their times."""

    def _coordinator(self) -> Coordinator:
        dealing = SplitAssigner(self.ids, self.source.discovery_interval_s is not None)
        wanted = self.node.watermark
        drift = wanted.max_drift if wanted else None
        drifts = {"s": WatermarkAlignment(drift // timedelta(microseconds=1))} if drift else {}
        return Coordinator(self.ids, {"s": dealing}, drifts)

    def _intake(self, id: SubtaskId, channel: Channel) -> SourceTask:
        reading = self.readers.create_reader()
        return SourceTask(
            self.node,
            reading,
            OperatorTask(
                None,
                TaskOutput({"s": [OutputEdge("forward", [channel], 0)]}, None),
                KernelExecutor(),
            ),
            lambda: 0,
            build_watermark_generator(
                self.node,
                reading,
                self.folder,
                lambda at_us: self.tell(WatermarkReport(id, at_us)),
                ordered=self.readers.is_ordered,
            ),
            self.bounds,
        )

    def tell(self, message: CoordinatorEvent) -> None:
        """Receive a subtask's message; it is answered a turn of the loop later."""
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: self.carry(self.coordinator.receive(message)))

    def carry(self, messages: Sequence[CoordinatorAction]) -> None:
        """Carry out the coordinator's actions."""
        for message in messages:
            if isinstance(message, AssignSplits):
                self.intakes[message.subtask].assign(message.splits, last=message.is_last)
            elif isinstance(message, SetDriftLimit):
                for intake in self.intakes.values():
                    intake.set_drift_limit(message.limit_us)

    async def run(self, stop_at: float | None = None, slow_s: float = 0) -> list[Seen]:
        """Read all subtasks; pause for this time after each batch."""
        loop = asyncio.get_running_loop()
        self.intakes = {
            id: self._intake(id, channel)
            for id, channel in zip(self.ids, self.channels, strict=True)
        }
        found = await self.source.discover_splits(first=True)
        self.carry(self.coordinator.start({"s": found}))
        for when, happen in self.later.items():
            loop.call_later(when, happen)
        if stop_at is not None:
            loop.call_later(stop_at, self._stop)
        gate = InputGate(self.channels)
        seen: list[Seen] = []
        async with asyncio.TaskGroup() as group:
            if self.source.discovery_interval_s is not None:
                group.create_task(self._rediscover(self.source.discovery_interval_s))
            for id in self.ids:
                group.create_task(self._live(id))
            while not seen or seen[-1][1] != EndOfStream():
                _, element = await gate.get()
                seen.append((round(loop.time(), 3), _shown(element)))
                await asyncio.sleep(slow_s if isinstance(element, Batch) else 0)
        return seen

    def _stop(self) -> None:
        for intake in self.intakes.values():
            intake.stop()

    async def _live(self, id: SubtaskId) -> None:
        await self.intakes[id].run()
        self.tell(SubtaskFinished(id))

    async def _rediscover(self, every_s: float) -> None:
        while self.coordinator.can_assign_splits("s"):
            await asyncio.sleep(every_s)
            self.carry(
                self.coordinator.assign_discovered(
                    "s", await self.source.discover_splits(first=False)
                )
            )


def _shown(element: Element) -> list[int] | Element:
    if isinstance(element, Batch):
        return [time // 1_000_000 for time in element.frame["at"].to_physical()]
    return element


def seen(
    alone: Alone, seed: int = 1, *, stop_at: float | None = None, slow_s: float = 0
) -> list[Seen]:
    """Return what the reader of a source receives."""
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(seed)) as runner:
        return runner.run(alone.run(stop_at, slow_s))
