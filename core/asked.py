"""What somebody may ask of a running job, and gets: an answer, or why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Status: TypeAlias = Literal[
    "starting",
    "restoring",
    "running",
    "stopping",
    "draining",
    "rescaling",
    "restarting",
    "over",
]
"""What a job is doing. `starting` and `restoring`: an attempt is being made, without a checkpoint
or behind one. `restarting`: it has failed, and waits to begin again."""


class Refused(Exception):
    """It cannot be done: why, and what to do. The job goes on as if nobody had asked."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Rescaled:
    """A running job has another parallelism."""

    checkpoint: int
    """The one between the two."""
    stood_still_s: float
    """From when sources were told to wait until they were told to go on."""
