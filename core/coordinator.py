"""The coordinator of an attempt as a state machine: events from workers in, messages out.

It has no clock and does no I/O: all methods return messages, and `state` says how the attempt
ended. `Attempt` is the shell that delivers the messages and passes in the time.

| state      | all finished  | stop         | failure     | committed      | AttemptCancelled |
|------------|---------------|--------------|-------------|----------------|------------------|
| running    | 1 > ending    | 2 > stopping | 4 > failing | -              | -                |
| stopping   | 1 > ending    | -            | 4 > failing | 3 > cancelling | -                |
| ending     | -             | -            | 4 > failing | > done         | -                |
| cancelling | -             | -            | -           | -              | > done           |
| failing    | -             | -            | -           | -              | > failed         |

1: the final checkpoint is taken. 2: PauseSources, and a checkpoint after it; to drain the job,
StopSources instead, which leads to "all finished". 3: Cancel. 4: Cancel, and AbortOutput for
prepared output that no manifest can name, also for what was on its way at that time; output that a
manifest may name is decided at the next start. Only the first failure is reported. "committed": the
checkpoint that was begun after the last input is complete, and it is recorded that all output named
by it is committed. After a stop no splits are assigned.

A job that cannot resume from a checkpoint, because one of its sources cannot be read again, takes
none (`checkpoints` is None): all output is committed at its end, and a stop finishes what was read,
with StopSources instead of PauseSources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from headrace.core.checkpoints import Checkpoints
from headrace.core.dealing import Dealing
from headrace.core.drift import Drift
from headrace.core.messages import (
    Abandoned,
    Abort,
    Acknowledged,
    AllVisible,
    Cancel,
    Cancelled,
    Commit,
    Committed,
    Deploy,
    Failed,
    Failure,
    Finished,
    Halt,
    Handle,
    Hold,
    Kept,
    Noted,
    NotKept,
    Restored,
    Snapshot,
    Split,
    Stop,
    SubtaskId,
    ToAnybody,
    ToCoordinator,
    WatermarkReport,
)

State: TypeAlias = Literal[
    "new", "running", "stopping", "ending", "cancelling", "failing", "done", "failed"
]


@dataclass(slots=True)
class Coordinator:
    """The coordinator of one attempt of a job."""

    subtasks: tuple[SubtaskId, ...]
    sources: Mapping[str, Dealing]
    """The assignment of splits to subtasks, by source."""
    drifts: Mapping[str, Drift] = field(default_factory=dict)
    """The watermark alignment of the sources that have a `max_drift`."""
    checkpoints: Checkpoints | None = None
    attempt: int = 1
    state: State = "new"
    failure: Failure | None = None
    stopped: bool = False
    drains: bool = False
    """Whether all that was read is finished before the stop, as at the end of event time."""
    _running: set[SubtaskId] = field(default_factory=set)
    _prepared: dict[SubtaskId, Handle] = field(default_factory=dict)
    """Without checkpoints: the output to commit at the end."""
    _committing: int = 0
    """The number of commits that have not been answered."""
    _last: int | None = None
    """The number of the checkpoint that was begun after the last input."""

    def start(
        self,
        splits: Mapping[str, Sequence[Split]],
        restored: Restored | None = None,
        now: float = 0.0,
    ) -> list[ToAnybody]:
        """Deploy all subtasks and assign the splits."""
        restored = restored or Restored()
        self.state = "running"
        self._running = set(self.subtasks)
        if self.checkpoints is not None:
            self.checkpoints.start(now)
        messages: list[ToAnybody] = [Deploy(self.attempt, self.subtasks, restored)]
        for name, dealing in self.sources.items():
            messages.extend(dealing.first(splits.get(name, ()), restored.splits.get(name)))
        return messages

    def reads(self, source: str) -> bool:
        """Whether newly discovered splits of a source would be read."""
        is_running = self.state == "running" and not self.stopped
        return is_running and not self._running.isdisjoint(self.sources[source].readers)

    def discovered(self, source: str, splits: Sequence[Split]) -> list[ToAnybody]:
        """Assign those of the discovered splits of a source that are new."""
        if not self.reads(source):
            return []
        return list(self.sources[source].more(splits, self._running))

    def ask(self, now: float = 0.0) -> tuple[int, list[ToAnybody]] | None:
        """Request a checkpoint of all input so far. Return its number; None if the job is ending.

        OutputCommitted reports its success, CheckpointFailed its failure.
        """
        if self.checkpoints is None or self.state != "running" or self.stopped:
            return None
        return self.checkpoints.ask(now)

    def stop(self, now: float = 0.0, *, drains: bool = False) -> list[ToAnybody]:
        """Begin to stop the job."""
        if self.state != "running" or self.stopped:
            return []
        self.stopped = True
        if self.checkpoints is None:
            return [Stop()]
        if drains:
            self.drains = True
            return [*self.checkpoints.drain(now), Stop(drains=True)]
        self.state = "stopping"
        return [Halt(), *self._go_on(now)]

    def due(self) -> float | None:
        """Return the time of the next `tick`, if one is due."""
        is_active = self.state in ("running", "stopping", "ending")
        if self.state == "running" and self.drains:
            return None
        return self.checkpoints.due() if is_active and self.checkpoints else None

    def tick(self, now: float) -> list[ToAnybody]:
        """Advance the checkpoints to this time."""
        if self.due() is None or self.checkpoints is None:
            return []
        return [*self.checkpoints.tick(now), *self._go_on(now)]

    def receive(self, message: ToCoordinator, now: float = 0.0) -> list[ToAnybody]:
        """Return the messages that answer an event."""
        match message:
            case Failed(_, failure):
                return self.fail(failure)
            case WatermarkReport(subtask, at_us):
                return self._reported(subtask, at_us)
            case Cancelled() if self.state in ("failing", "cancelling"):
                self.state = "failed" if self.state == "failing" else "done"
                return []
            case Committed(subtask):
                self._committing -= 1
                self._prepared.pop(subtask, None)
        if self.state == "failing":
            return self._too_late(message)
        if self.state not in ("running", "stopping", "ending"):
            return []
        answers = self._answered(message, now)
        visible = self._visible() if isinstance(message, Committed | Kept) else []
        return [*answers, *visible, *self._go_on(now)]

    def _visible(self) -> list[ToAnybody]:
        """Return OutputCommitted if a complete checkpoint has no commits left."""
        checkpoints = self.checkpoints
        if self._committing or checkpoints is None or checkpoints.state != "committing":
            return []
        return [AllVisible(checkpoints.number)]

    def fail(self, failure: Failure) -> list[ToAnybody]:
        """Fail the attempt; failures after the first are not reported."""
        if self.state not in ("running", "stopping", "ending"):
            return []
        self.state, self.failure = "failing", failure
        unnamed = self.checkpoints.unnamed if self.checkpoints else sorted(self._prepared.items())
        return [Cancel(), *(Abort(subtask, handle) for subtask, handle in unnamed)]

    def _too_late(self, message: ToCoordinator) -> list[ToAnybody]:
        """Abort output whose handle was on its way when the job failed: no manifest names it."""
        match message:
            case Acknowledged(subtask, _, Snapshot(handle=handle)) if handle is not None:
                return [Abort(subtask, handle)]
            case Abandoned(subtask, handle=handle) if handle is not None:
                return [Abort(subtask, handle)]
            case Finished(subtask, Snapshot(handle=handle)) if handle is not None:
                return [Abort(subtask, handle)]
        return []

    def _answered(self, message: ToCoordinator, now: float) -> list[ToAnybody]:
        """Pass an event to the checkpoint that is in progress."""
        checkpoints = self.checkpoints
        match message:
            case Finished(subtask, snapshot):
                self._running.discard(subtask)
                reported = self._reported(subtask, None) if self._running else []
                if checkpoints is not None:
                    return [*reported, *checkpoints.finished(subtask, snapshot)]
                if snapshot.handle is not None:
                    self._prepared[subtask] = snapshot.handle
                return reported
        if checkpoints is None:
            return []
        match message:
            case Acknowledged():
                return checkpoints.acknowledged(message)
            case Abandoned():
                return checkpoints.abandoned(message, now)
            case Kept(number):
                return self._counted(checkpoints.written(number, now))
            case NotKept(number, why):
                return checkpoints.not_written(number, why, now)
            case Noted(number):
                return checkpoints.noted(number, now)
        return []

    def _go_on(self, now: float) -> list[ToAnybody]:
        """Make the state transition that has become possible, if any."""
        if self.state in ("running", "stopping") and not self._running:
            self.state, self._last = "ending", None
            if self.checkpoints is None:
                commits = [Commit(s, h) for s, h in sorted(self._prepared.items())]
                return [*self._counted(commits), *self._over()]
        checkpoints = self.checkpoints
        if checkpoints is None or self.state == "running":
            return self._borne() if checkpoints else self._over()
        if checkpoints.too_many:
            return self._borne()
        done = self._last is not None and checkpoints.kept == self._last
        if not done and checkpoints.state == "idle":
            begun = checkpoints.begin(now)
            self._last = checkpoints.number
            return begun
        return self._over() if done else []

    def _borne(self) -> list[ToAnybody]:
        """Fail the job when too many checkpoints have failed."""
        assert self.checkpoints is not None
        if not self.checkpoints.too_many:
            return []
        failed = self.checkpoints.failed
        count = f"{failed} checkpoints in a row" if failed > 1 else "a checkpoint"
        hint = "checkpoint.tolerable_failures sets how many may fail in a row"
        return self.fail(
            Failure(
                f"{count} failed: {self.checkpoints.why}", "checkpoints", hint=hint, may_pass=True
            )
        )

    def _over(self) -> list[ToAnybody]:
        """End the attempt when no input is left and all output is committed."""
        if self._committing or self.state not in ("ending", "stopping"):
            return []
        if self.checkpoints is not None and self.checkpoints.state == "committing":
            return []
        if self.state == "ending":
            self.state = "done"
            return []
        self.state = "cancelling"
        return [Cancel()]

    def _counted(self, messages: Sequence[ToAnybody]) -> list[ToAnybody]:
        self._committing += sum(isinstance(message, Commit) for message in messages)
        return list(messages)

    def _reported(self, subtask: SubtaskId, at_us: int | None) -> list[ToAnybody]:
        """Record a subtask's watermark; send a new drift limit if the watermark changes it."""
        for name, drift in self.drifts.items():
            if subtask in self.sources[name].readers:
                until_us = drift.reported(subtask, at_us)
                return [] if until_us is None else [Hold(name, until_us)]
        return []

    @property
    def over(self) -> bool:
        """Whether the coordinator will send no more messages."""
        return self.state in ("done", "failed")

    @property
    def ended(self) -> bool:
        """Whether all input was read, and all output emitted and committed."""
        return self.state == "done" and not self._running and not self.drains
