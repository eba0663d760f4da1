"""The output edges of a subtask: they send the rows of a stream into its readers' channels.

Steps that read a stream by the same key get the same partitions, so rows are partitioned once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.dataflow.channel import OutputChannel
from headrace.core.expressions.checked_expressions import CheckedExpressions
from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import is_fallible
from headrace.core.plan.nodes import ComputedColumn, Exchange
from headrace.core.types.elements import Batch, ControlElement, LatencyMarker
from headrace.core.types.frames import select_columns
from headrace.core.types.key_groups import partition_by_owner
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


RowPartitions: TypeAlias = "list[tuple[int, pl.DataFrame]]"


@dataclass(slots=True)
class KeyPartitioner:
    """Partitions rows by the subtask that owns their key, once for all edges that share it."""

    key: tuple[ComputedColumn, ...]
    key_groups: int
    reader_count: int
    sharer_count: int = 1
    """The number of edges that request the partitions of every frame."""
    _exprs: list[pl.Expr] = field(init=False)
    _checked: CheckedExpressions | None = field(init=False)
    """The key, if it may fail; where it does, it is null here, and the row fails later."""
    _frame: pl.DataFrame | None = None
    _partitions: RowPartitions = field(default_factory=list)
    _reads_left: int = 0

    def __post_init__(self) -> None:
        named = {column.name: column.value for column in self.key}
        self._exprs = [to_expr(value).alias(name) for name, value in named.items()]
        fallible = any(map(is_fallible, named.values()))
        self._checked = CheckedExpressions(named) if fallible else None

    async def partition(
        self, frame: pl.DataFrame, kernel_executor: KernelExecutor
    ) -> RowPartitions:
        """Return the partitions of a frame; the result is cached until every edge has got it."""
        if self._frame is not frame:
            self._partitions = await kernel_executor.run(
                frame.height, partial(self.compute_partitions, frame)
            )
            self._frame, self._reads_left = frame, self.sharer_count
        parts = self._partitions
        self._reads_left -= 1
        if not self._reads_left:
            self._frame, self._partitions = None, []
        return parts

    def has_same_partitions(self, other: KeyPartitioner) -> bool:
        """Whether both produce the same partitions."""
        sizes = (self.key_groups, self.reader_count) == (other.key_groups, other.reader_count)
        return sizes and [c.value for c in self.key] == [c.value for c in other.key]

    def compute_partitions(self, frame: pl.DataFrame) -> RowPartitions:
        """Compute the partitions of a frame."""
        if self._checked is not None:
            return [
                part
                for piece in self._checked.evaluate(frame)
                for part in self._partition_by_keys(piece.rows, piece.values)
            ]
        return list(self._partition_by_keys(frame, select_columns(frame, *self._exprs)))

    def _partition_by_keys(
        self, frame: pl.DataFrame, keys: pl.DataFrame
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        return partition_by_owner(frame, keys, self.key_groups, self.reader_count)


@dataclass(slots=True)
class OutputEdge:
    """One edge of the plan at one of its writing subtasks, with a channel to each reader."""

    exchange: Exchange
    channels: Sequence[OutputChannel]
    index: int
    """The index of the writing subtask; a forward edge sends to the reader of the same index."""
    key: tuple[ComputedColumn, ...] = ()
    key_groups: int = 1
    kernel_executor: KernelExecutor = field(default_factory=KernelExecutor)
    partitioner: KeyPartitioner = field(init=False)
    _next_reader: int = 0
    _next_marker: int = 0

    def __post_init__(self) -> None:
        self.partitioner = KeyPartitioner(self.key, self.key_groups, len(self.channels))

    @property
    def is_partitioned(self) -> bool:
        """Whether rows are partitioned by the owner of their key."""
        return self.exchange == "hash" and len(self.channels) > 1

    async def send_rows(self, frame: pl.DataFrame) -> None:
        """Send rows; waits for channels that are full."""
        divides = self.is_partitioned
        parts = (
            await self.partitioner.partition(frame, self.kernel_executor)
            if divides
            else self._assign_whole_frame(frame)
        )
        for at, part in parts:
            await self.channels[at].put(Batch(part))

    async def send_control(self, mark: ControlElement) -> None:
        """Send a control element to every reader."""
        channels = (self.channels[self.index],) if self.exchange == "forward" else self.channels
        for channel in channels:
            await channel.put(mark)

    async def send_marker(self, marker: LatencyMarker) -> None:
        """Send a latency marker to one reader, each in its turn.

        If each subtask sent it to all readers, their number would grow with each exchange.
        """
        at = self.index if self.exchange == "forward" else self.index + self._next_marker
        self._next_marker += 1
        await self.channels[at % len(self.channels)].put(marker)

    def _assign_whole_frame(self, frame: pl.DataFrame) -> RowPartitions:
        """Return the whole frame for one reader, or for all of them."""
        if self.exchange == "broadcast":
            return [(at, frame) for at in range(len(self.channels))]
        self._next_reader += self.exchange == "rebalance"
        return [((self.index + self._next_reader) % len(self.channels), frame)]


def share_partitioners(edges: Iterable[OutputEdge]) -> None:
    """Share partitioners among the edges of one stream that need the same partitions."""
    divisions: list[KeyPartitioner] = []
    for edge in edges:
        if edge.is_partitioned:
            same = next(
                (each for each in divisions if each.has_same_partitions(edge.partitioner)), None
            )
            if same is None:
                divisions.append(edge.partitioner)
            else:
                same.sharer_count += 1
                edge.partitioner = same
