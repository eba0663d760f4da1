"""The status of a running job, and the results of requests to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

JobStatus: TypeAlias = Literal[
    "starting",
    "restoring",
    "running",
    "stopping",
    "draining",
    "rescaling",
    "restarting",
    "over",
]
"""The status of a job.

`starting` and `restoring`: an attempt is being started, without a checkpoint or from one.
`restarting`: the job has failed and waits to restart.
"""


class RequestRejected(Exception):
    """A request that the job rejects, with a hint.

    The job continues as if there had been no request.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class RescaleResult:
    """The result of rescaling a running job."""

    checkpoint: int
    """The checkpoint between the two parallelisms."""
    downtime_s: float
    """The downtime: from when sources paused until they resumed."""
