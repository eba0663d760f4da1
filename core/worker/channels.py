"""The channels between the subtasks of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from headrace.core.api.splits import SubtaskId
from headrace.core.dataflow.channel import Channel, ChannelBounds, OutputChannel
from headrace.core.dataflow.feedback_channel import FeedbackBudget, FeedbackChannel
from headrace.core.plan import nodes
from headrace.core.plan.layout import get_loop
from headrace.core.types.lazy_dataclass import dataclass

ChannelKey: TypeAlias = "tuple[int, int, int]"
"""An edge of the plan, the index of the writing subtask, and that of the reading one."""


def list_channels(plan: nodes.Plan) -> Iterator[tuple[ChannelKey, SubtaskId, SubtaskId]]:
    """Yield each channel between subtasks of a plan, with its writer and its reader."""
    tasks = {name: number for number, task in enumerate(plan.tasks) for name in task.parts}
    for at, edge in enumerate(plan.edges):
        producer, consumer = tasks[edge.producer], tasks[edge.consumer]
        if producer == consumer:
            continue
        for writer in range(plan.part(edge.producer).parallelism):
            for reader in range(plan.part(edge.consumer).parallelism):
                if edge.exchange != "forward" or writer == reader:
                    yield (
                        (at, writer, reader),
                        SubtaskId(producer, writer),
                        SubtaskId(consumer, reader),
                    )


@dataclass(frozen=True, slots=True)
class ChannelEnds:
    """The ends of channels that subtasks of this process read and write."""

    inputs: Mapping[ChannelKey, Channel]
    outputs: Mapping[ChannelKey, OutputChannel]


def build_channels(plan: nodes.Plan, bounds: ChannelBounds) -> ChannelEnds:
    """Build the channels of a plan whose subtasks are all in this process."""
    channels = dict[ChannelKey, Channel]()
    budgets = dict[SubtaskId, FeedbackBudget]()
    for key, _, reader in list_channels(plan):
        edge = plan.edges[key[0]]
        loop = get_loop(plan.part(edge.consumer)) if edge.is_feedback else None
        if loop is None:
            channels[key] = Channel(bounds)
        else:
            new = FeedbackBudget(edge.consumer, loop.max_bytes)
            channels[key] = FeedbackChannel(budgets.setdefault(reader, new), bounds)
    return ChannelEnds(channels, channels)
