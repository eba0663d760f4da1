"""The lifecycle of a job as a state machine: events in, the state and the next step out.

It has no clock and does no I/O. `Job` is the shell, which runs attempts, waits and answers clients.

| state      | deployed    | sources paused | attempt ended | attempt failed  | delay over |
|------------|-------------|----------------|---------------|-----------------|------------|
| new        | -           | -              | -             | -               | -          |
| starting   | > running   | > rescaling    | > over        | 2 > restarting  | -          |
| running    | -           | > rescaling    | > over        | 2 > restarting  | -          |
| rescaling  | -           | -              | 1 > switching | 2 > restarting  | -          |
| switching  | 4 > running | -              | > over        | 3 > starting    | -          |
| restarting | -           | -              | -             | -               | > starting |
| over       | -           | -              | -             | -               | -          |

In "rescaling", an attempt ends with a checkpoint, so that the next one runs the new plan; that one
is started in "switching". 1: to "over" if there is nothing to continue: all input was read, the job
was drained, or a stop was requested. 2: to "over" if a stop was requested, or no restart is left;
`failure` says why. 3: back to the old plan at once; to "over" if a stop was requested. 4: the
rescale is complete.

The first loss of a worker after a stop request restarts the job nevertheless, if a restart is left,
so that its last checkpoint is taken once more.

A stop may be requested in any state, and is not withdrawn. A job that waits to restart is stopped
at once. One to be drained has to run for that: it restarts first, and a rescale is completed. An
error that is raised before anything is read leads to "over" from anywhere (`end`).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from headrace.core.api.splits import Failure
from headrace.core.types.lazy_dataclass import dataclass

JobState: TypeAlias = Literal[
    "new", "starting", "running", "rescaling", "switching", "restarting", "over"
]

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

AttemptEnd: TypeAlias = Literal["complete", "stopped", "drained"]
"""The end of an attempt without a failure.

`complete`: all input was read and all output committed. `stopped`: it ended with a checkpoint to
resume from, or without checkpoints with all that was read. `drained`: all that was read was
emitted.
"""

FailureStep: TypeAlias = Literal["restart", "revert", "end"]
"""The next step after a failure.

`restart`: if the restart policy allows it (`wait_to_restart`, or else `give_up`). `revert`: switch
back to the old plan, and continue unless the job is over.
"""


@dataclass(slots=True)
class JobLifecycle:
    """The state of a job, the stop that was requested, and how it ended."""

    state: JobState = "new"
    stop_request: Literal["", "stop", "drain"] = ""
    """The first request to stop."""
    attempt_end: AttemptEnd | None = None
    """How the last attempt ended; None while it runs, and after a failure."""
    failure: Failure | None = None
    """The failure after which the job waits to restart, or is over."""
    is_restored: bool = False
    """Whether the attempt starts from a checkpoint."""
    _is_stopped: bool = False
    _is_stop_repeated: bool = False
    """Whether the job restarts to be stopped, because a worker was lost meanwhile."""

    @property
    def is_over(self) -> bool:
        """Whether no attempt follows."""
        return self.state == "over"

    @property
    def is_stopped(self) -> bool:
        """Whether the job ended because of a stop request."""
        return self.is_over and self._is_stopped

    @property
    def is_stopping(self) -> bool:
        """Whether the job ends with the newest checkpoint; to be drained it has to run."""
        return self.stop_request == "stop"

    @property
    def status(self) -> JobStatus:
        """The status as clients see it: a failure or a rescale takes precedence over a stop."""
        match self.state:
            case "over" | "restarting":
                return self.state
            case "rescaling" | "switching":
                return "rescaling"
        if self.stop_request:
            return "draining" if self.stop_request == "drain" else "stopping"
        if self.state == "running":
            return "running"
        return "restoring" if self.is_restored else "starting"

    def request_stop(self, *, drain: bool) -> None:
        """Request the end; later requests change nothing."""
        self.stop_request = self.stop_request or ("drain" if drain else "stop")

    def start_attempt(self, *, is_restored: bool) -> None:
        """Start an attempt."""
        if self.state == "new":
            self.state = "starting"
        self.is_restored, self.attempt_end = is_restored, None

    def deploy(self) -> bool:
        """Record that the subtasks run. Return whether that completes a rescale."""
        is_rescaled = self.state == "switching"
        if self.state in ("starting", "switching"):
            self.state = "running"
        return is_rescaled

    def pause_sources(self) -> None:
        """Record that a rescale has paused the sources."""
        if self.state in ("starting", "running"):
            self.state = "rescaling"

    def end_attempt(self, end: AttemptEnd) -> None:
        """End an attempt that did not fail: a rescale switches to its plan."""
        self.attempt_end = end
        if self.state == "rescaling" and end == "stopped" and not self.is_stopping:
            self.state = "switching"
            return
        self.state, self._is_stopped = "over", end != "complete"

    def fail_attempt(self, failure: Failure) -> FailureStep:
        """End an attempt by a failure. Return the next step."""
        self.attempt_end = None
        if self.state == "switching":
            self.state = "starting"
            self._stop_if_requested()
            return "revert"
        if self.stop_request and (self._is_stop_repeated or not failure.is_worker_lost):
            self.give_up(failure)
            return "end"
        self._is_stop_repeated = bool(self.stop_request)
        return "restart"

    def wait_to_restart(self, failure: Failure) -> None:
        """Wait to restart after a failure."""
        self.state, self.failure = "restarting", failure

    def resume(self) -> None:
        """End the wait, by its delay or by a stop."""
        self.state, self.failure = "starting", None
        if not self._is_stop_repeated:
            self._stop_if_requested()

    def give_up(self, failure: Failure) -> None:
        """End the job by a failure."""
        self.state, self.failure = "over", failure

    def end(self) -> None:
        """End the job, also by an error that is raised."""
        self.state = "over"

    def _stop_if_requested(self) -> None:
        """End the job before the next attempt, with the newest checkpoint."""
        if self.is_stopping:
            self.state, self._is_stopped = "over", True
