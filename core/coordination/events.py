"""The events of a running job that are reported to the user, in addition to its statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from headrace.core.api.splits import Failure
from headrace.core.coordination.messages import CheckpointCompleted, CheckpointFailed
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class JobResumed:
    """The job has resumed from a checkpoint."""

    number: int
    taken_at: str
    sources: tuple[tuple[str, str], ...]
    """The position from which each source resumes, in words."""
    killed_process: str | None = None
    """The process that was killed before, if one was."""
    changes: tuple[str, ...] = ()
    """The differences that follow from changes of the pipeline."""
    removed_checkpoints: tuple[int, ...] = ()
    """The newer checkpoints, where an older one was requested."""
    repeated_rows: tuple[tuple[str, int], ...] = ()
    """By sink, the maximum number of rows that were written after the checkpoint and are repeated.
    """
    savepoint: str | None = None
    """The path of the savepoint that the checkpoint was made of, if it was made of one."""
    dropped_checkpoints: int = 0
    """The number of checkpoints of another job that were in the home and have been removed."""


@dataclass(frozen=True, slots=True)
class JobRestarting:
    """The job has failed, and restarts from its newest checkpoint after a delay."""

    failure: Failure
    delay_s: float


@dataclass(frozen=True, slots=True)
class RegionsRestarting:
    """A worker was lost, and its subtasks restart after a delay; all others go on."""

    failure: Failure
    delay_s: float
    checkpoint: int | None
    """The checkpoint that they restart from; None: they start afresh."""
    subtasks: int
    """The number of subtasks that restart."""
    subtask_count: int
    """The number of subtasks of the job."""


@dataclass(frozen=True, slots=True)
class RegionsRestarted:
    """The subtasks of a lost worker run again."""

    checkpoint: int | None
    subtasks: int


@dataclass(frozen=True, slots=True)
class StopRequested:
    """A client has requested the end of the job."""

    is_drain: bool
    is_immediate: bool = False
    """Whether it ends without a checkpoint."""


@dataclass(frozen=True, slots=True)
class SavepointTaken:
    """A savepoint was made of a checkpoint."""

    number: int
    path: str


@dataclass(frozen=True, slots=True)
class JobRescaled:
    """The job continues at another parallelism of these parts, or with other workers."""

    parallelism: Mapping[str, int]
    downtime_s: float
    workers: int | None = None
    """The new number of workers; None if it stays."""


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A client's request has failed."""

    request: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExternalWarning:
    """An external condition that the job tolerates or waits for."""

    message: str


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker process has ended, or was killed because it did not answer."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """A worker process was started."""

    number: int
    pid: int


JobEvent: TypeAlias = (
    JobResumed
    | WorkerLost
    | WorkerStarted
    | CheckpointCompleted
    | CheckpointFailed
    | JobRestarting
    | RegionsRestarting
    | RegionsRestarted
    | StopRequested
    | SavepointTaken
    | JobRescaled
    | RequestFailed
    | ExternalWarning
)
