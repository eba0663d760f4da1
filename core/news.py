"""What there is to tell about a job while it runs, beside its figures."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Restarting:
    """The job has failed, and begins again from its newest checkpoint after some time."""

    failure: Failure
    delay_s: float


News: TypeAlias = Resumed | CheckpointTaken | CheckpointFailed | Restarting
