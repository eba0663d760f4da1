"""The specification of a job, which is the same for each of its attempts until it is rescaled."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from headrace.core.api.run_context import RunContext
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connectors
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.pool import InProcessProvider, WorkerProvider

if TYPE_CHECKING:
    from headrace.core.checkpoint.storage import CheckpointStorage


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A plan, and all that its run depends on: clock, threads and connectors are not global."""

    plan: nodes.Plan
    connectors: Connectors
    run_context: RunContext
    operator_context: OperatorContext
    bounds: ChannelBounds = field(default_factory=ChannelBounds)
    storage: CheckpointStorage | None = None
    """The checkpoint storage, if the job can resume from checkpoints."""
    workers: WorkerProvider = field(default_factory=InProcessProvider)
    """Provides the workers of each attempt."""
    worker_count: int = 1
    """The number of workers of each attempt."""
