"""The events of a running job that are reported to the user, in addition to its statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headrace.core.messages import CheckpointFailed, CheckpointTaken, Failure


@dataclass(frozen=True, slots=True)
class Resumed:
    """The job has resumed from a checkpoint."""

    number: int
    taken_at: str
    sources: tuple[tuple[str, str], ...]
    """The position from which each source resumes, in words."""
    killed: str | None = None
    """The process that was killed before, if one was."""
    changes: tuple[str, ...] = ()
    """The differences that follow from changes of the pipeline."""
    removed: tuple[int, ...] = ()
    """The newer checkpoints, where an older one was requested."""
    again: tuple[tuple[str, int], ...] = ()
    """By sink, the maximum number of rows that were written after the checkpoint and are repeated.
    """
    savepoint: str | None = None
    """The path of the savepoint that the checkpoint was made of, if it was made of one."""
    forgotten: int = 0
    """The number of checkpoints of another job that were in the home and have been removed."""


@dataclass(frozen=True, slots=True)
class Restarting:
    """The job has failed, and restarts from its newest checkpoint after a delay."""

    failure: Failure
    delay_s: float


@dataclass(frozen=True, slots=True)
class Asked:
    """A client has requested the end of the job."""

    drain: bool


@dataclass(frozen=True, slots=True)
class Savepointed:
    """A savepoint was made of a checkpoint."""

    number: int
    path: str


@dataclass(frozen=True, slots=True)
class Rescaled:
    """The job continues at another parallelism of these parts."""

    parallelism: Mapping[str, int]
    stood_still_s: float


@dataclass(frozen=True, slots=True)
class NotDone:
    """A client's request has failed."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Noticed:
    """An external condition that the job tolerates or waits for."""

    line: str


News: TypeAlias = (
    Resumed
    | CheckpointTaken
    | CheckpointFailed
    | Restarting
    | Asked
    | Savepointed
    | Rescaled
    | NotDone
    | Noticed
)
