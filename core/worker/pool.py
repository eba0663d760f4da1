"""The workers of an attempt, as its coordinator knows them: in this process, or in others.

An attempt gets its pool from a provider, which outlives it: processes can stay for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from headrace.core.api.run_context import RunContext
from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import Document
from headrace.core.api.taps import TapRequest, TapSample
from headrace.core.coordination.messages import CoordinatorEvent, WorkerCommand
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connectors
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.channels import ChannelEnds, build_channels
from headrace.core.worker.connectors import (
    OpenConnectors,
    WorkerConnectors,
    open_worker_connectors,
)
from headrace.core.worker.report import WorkerReport
from headrace.core.worker.subtask_builder import SubtaskBuilder
from headrace.core.worker.tap_sampler import TapSampler
from headrace.core.worker.worker import Worker


class WorkerPool(Protocol):
    """All workers of one attempt."""

    async def receive(self, command: WorkerCommand) -> None:
        """Pass a command to the workers that it concerns; failures come as events.

        After Cancel, a single AttemptCancelled says that no worker runs a subtask any more.
        """
        ...

    async def cancel(self) -> None:
        """End every subtask, and wait until none runs any more. It may be repeated."""
        ...

    def replace_lost(
        self, descriptions: Mapping[str, Document], migrated_steps: frozenset[str]
    ) -> None:
        """Start a worker for each that was lost; Deploy of its subtasks follows.

        The descriptions for connectors and the steps to migrate are those of its new beginning.
        """
        ...

    def set_taps(self, requests: Sequence[TapRequest]) -> None:
        """Sample the rows of these streams, and no others."""
        ...

    def collect_reports(self, *, with_splits: bool = True) -> tuple[WorkerReport, ...]:
        """Return the newest known report of each worker; splits may be left out."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """All that the workers of an attempt build their subtasks from, besides connectors."""

    plan: nodes.Plan
    attempt: int
    connectors: Connectors
    run_context: RunContext
    operator_context: OperatorContext
    bounds: ChannelBounds
    store: SnapshotStore | None = None
    """The store for snapshots; without one, subtasks take no part in checkpoints."""
    is_aligned: bool = True
    """Whether inputs wait for each other's barriers, so that each row counts exactly once."""
    migrated_steps: frozenset[str] = frozenset()
    """The steps whose restored states must be migrated to the changed pipeline."""
    worker_count: int = 1
    """The number of workers; a single one runs in the coordinator's process."""
    report_sample: Callable[[TapSample], None] = lambda sample: None
    """Takes the samples of taps."""


class WorkerProvider(Protocol):
    """The workers of a job, which may outlive its attempts."""

    async def prepare(self, count: int) -> None:
        """Start what an attempt with this number of workers needs in addition to the current one.

        They are ready to run subtasks then. What neither of the two needs is ended; one worker
        needs nothing. Raises ConnectorError if a worker cannot be started.
        """
        ...

    async def start_attempt(
        self,
        spec: WorkerSpec,
        connectors: OpenConnectors,
        send: Callable[[CoordinatorEvent], None],
    ) -> WorkerPool:
        """Start the workers of an attempt; they send events by `send`, on the attempt's loop.

        Raises ConnectorError or SnapshotError.
        """
        ...


@dataclass(frozen=True, slots=True)
class InProcessPool:
    """A single worker in the coordinator's process."""

    worker: Worker
    connectors: WorkerConnectors

    async def receive(self, command: WorkerCommand) -> None:
        """Pass the command to the worker."""
        await self.worker.receive(command)

    async def cancel(self) -> None:
        """End every subtask, and close what they use."""
        await self.worker.cancel()
        await self.connectors.close()

    def replace_lost(
        self, descriptions: Mapping[str, Document], migrated_steps: frozenset[str]
    ) -> None:
        """Do nothing: the worker is lost only with its coordinator."""

    def set_taps(self, requests: Sequence[TapRequest]) -> None:
        """Pass the requests to the worker."""
        self.worker.set_taps(requests)

    def collect_reports(self, *, with_splits: bool = True) -> tuple[WorkerReport, ...]:
        """Return the report of the worker at this time."""
        return (self.worker.collect_report(with_splits=with_splits),)


def build_worker(
    spec: WorkerSpec,
    connectors: WorkerConnectors,
    channels: ChannelEnds,
    send: Callable[[CoordinatorEvent], None],
) -> Worker:
    """Build a worker of an attempt, with its ends of channels."""
    builder = SubtaskBuilder(
        spec.plan,
        connectors,
        spec.run_context,
        spec.bounds,
        spec.operator_context,
        spec.store,
        channels=channels,
        aligned=spec.is_aligned,
        changed=spec.migrated_steps,
    )
    executor, now_us = spec.run_context.kernel_executor, spec.operator_context.now_us
    sampler = TapSampler(spec.plan, executor, now_us, spec.report_sample)
    return Worker(builder, executor, send, sampler)


class InProcessProvider:
    """Provides each attempt with a single worker in the coordinator's process."""

    async def prepare(self, count: int) -> None:
        """Do nothing: the worker starts at once."""

    async def start_attempt(
        self,
        spec: WorkerSpec,
        connectors: OpenConnectors,
        send: Callable[[CoordinatorEvent], None],
    ) -> WorkerPool:
        """Return a pool of one worker in this process."""
        return await start_in_process(spec, connectors, send)


async def start_in_process(
    spec: WorkerSpec, connectors: OpenConnectors, send: Callable[[CoordinatorEvent], None]
) -> WorkerPool:
    """Return a pool of one worker in this process."""
    halves = open_worker_connectors(
        spec.plan,
        spec.connectors,
        spec.run_context,
        await connectors.describe_for_workers(),
        connectors.answer,
        connectors.lookups,
    )
    channels = build_channels(spec.plan, spec.bounds)
    return InProcessPool(build_worker(spec, halves, channels, send), halves)
