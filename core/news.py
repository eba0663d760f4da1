"""What there is to tell about a job while it runs, beside its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headrace.core.messages import CheckpointFailed, CheckpointTaken, Failure


@dataclass(frozen=True, slots=True)
class Resumed:
    """It goes on from a checkpoint."""

    number: int
    taken_at: str
    sources: tuple[tuple[str, str], ...]
    """From where each source goes on, in words."""
    killed: str | None = None
    """Which process was killed before, if one was."""
    changes: tuple[str, ...] = ()
    """What it goes on with differently, because the pipeline was changed."""
    removed: tuple[int, ...] = ()
    """The checkpoints that were newer, where somebody asked for this one."""
    again: tuple[tuple[str, int], ...] = ()
    """How many rows at most each sink has written behind it, and writes a second time."""
    savepoint: str | None = None
    """Where the savepoint is that the checkpoint was made of, if somebody asked for one."""
    forgotten: int = 0
    """How many checkpoints of another job were in the home, and are there no more."""


@dataclass(frozen=True, slots=True)
class Restarting:
    """The job has failed, and begins again from its newest checkpoint after some time."""

    failure: Failure
    delay_s: float


@dataclass(frozen=True, slots=True)
class Asked:
    """A client has asked for the end."""

    drain: bool


@dataclass(frozen=True, slots=True)
class Savepointed:
    """A savepoint was made of a checkpoint."""

    number: int
    path: str


@dataclass(frozen=True, slots=True)
class Rescaled:
    """It goes on with other numbers of subtasks, of these parts."""

    parallelism: Mapping[str, int]
    stood_still_s: float


@dataclass(frozen=True, slots=True)
class NotDone:
    """What a client has asked for could not be done."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Noticed:
    """Something in the outside world that the job goes on without, or through."""

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
