"""A job as a state machine: what came from workers, what to say to them, when it is over.

No clock, no I/O: all methods answer with messages, `state` says how the job ended. `attempt` is the
shell that carries them, and hands in the time.

| state    | all finished  | stop         | failure     | committed   | Cancelled |
|----------|---------------|--------------|-------------|-------------|-----------|
| running  | 1 > ending    | 2 > stopping | 4 > failing | -           | -         |
| stopping | 1 > ending    | -            | 4 > failing | 3 > leaving | -         |
| ending   | -             | -            | 4 > failing | > done      | -         |
| leaving  | -             | -            | -           | -           | > done    |
| failing  | -             | -            | -           | -           | > failed  |

1: the last checkpoint is taken. 2: Halt, and a checkpoint behind it; to drain the job it is Stop,
which leads by way of "all finished". 3: Cancel. 4: Cancel, and Abort of what no manifest can name,
also of what was on its way then; the other is decided at the next start. The first failure is the
one that is told. "Committed": the checkpoint that was begun when nothing was to come any more is
there, and it is noted that all output that it names is visible. Behind a stop nothing is assigned
any more.

A job that cannot go on from a checkpoint, because one of its sources cannot be read again, takes
none (`checkpoints` is None): all is committed at its end, and a stop lets it finish what it has
read: Stop instead of Halt.
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
    "new", "running", "stopping", "ending", "leaving", "failing", "done", "failed"
]


@dataclass(slots=True)
class Coordinator:
    """One attempt of a job."""

    subtasks: tuple[SubtaskId, ...]
    sources: Mapping[str, Dealing]
    """Who reads each source, by the source's name."""
    drifts: Mapping[str, Drift] = field(default_factory=dict)
    """The sources whose splits are to keep together."""
    checkpoints: Checkpoints | None = None
    attempt: int = 1
    state: State = "new"
    failure: Failure | None = None
    stopped: bool = False
    drains: bool = False
    """Whether all that was read is finished before it stops, as if time were over."""
    _running: set[SubtaskId] = field(default_factory=set)
    _prepared: dict[SubtaskId, Handle] = field(default_factory=dict)
    """Without checkpoints: what waits for the end."""
    _committing: int = 0
    """How many commits have not been answered."""
    _last: int | None = None
    """The checkpoint that was begun when nothing was to come any more."""

    def start(
        self,
        splits: Mapping[str, Sequence[Split]],
        restored: Restored | None = None,
        now: float = 0.0,
    ) -> list[ToAnybody]:
        """Deploy everything and deal out the splits."""
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
        """Whether splits of a source that are discovered now would be read."""
        going_on = self.state == "running" and not self.stopped
        return going_on and not self._running.isdisjoint(self.sources[source].readers)

    def discovered(self, source: str, splits: Sequence[Split]) -> list[ToAnybody]:
        """These are the splits of a source now: deal out those that are new."""
        if not self.reads(source):
            return []
        return list(self.sources[source].more(splits, self._running))

    def ask(self, now: float = 0.0) -> tuple[int, list[ToAnybody]] | None:
        """Somebody asks for a checkpoint of all that has come: its number; None if it is too late.

        AllVisible tells of it, or CheckpointFailed.
        """
        if self.checkpoints is None or self.state != "running" or self.stopped:
            return None
        return self.checkpoints.ask(now)

    def stop(self, now: float = 0.0, *, drains: bool = False) -> list[ToAnybody]:
        """Somebody asks for the end."""
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
        """When the next `tick` is due."""
        going_on = self.state in ("running", "stopping", "ending")
        if self.state == "running" and self.drains:
            return None
        return self.checkpoints.due() if going_on and self.checkpoints else None

    def tick(self, now: float) -> list[ToAnybody]:
        """Time has come this far."""
        if self.due() is None or self.checkpoints is None:
            return []
        return [*self.checkpoints.tick(now), *self._go_on(now)]

    def receive(self, message: ToCoordinator, now: float = 0.0) -> list[ToAnybody]:
        """What is to be said in answer."""
        match message:
            case Failed(_, failure):
                return self.fail(failure)
            case WatermarkReport(subtask, at_us):
                return self._reported(subtask, at_us)
            case Cancelled() if self.state in ("failing", "leaving"):
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
        """What there is to say when a checkpoint is there, or a commit has been answered."""
        checkpoints = self.checkpoints
        if self._committing or checkpoints is None or checkpoints.state != "committing":
            return []
        return [AllVisible(checkpoints.number)]

    def fail(self, failure: Failure) -> list[ToAnybody]:
        """Something cannot go on; what comes after the first failure is not told."""
        if self.state not in ("running", "stopping", "ending"):
            return []
        self.state, self.failure = "failing", failure
        unnamed = self.checkpoints.unnamed if self.checkpoints else sorted(self._prepared.items())
        return [Cancel(), *(Abort(subtask, handle) for subtask, handle in unnamed)]

    def _too_late(self, message: ToCoordinator) -> list[ToAnybody]:
        """What a subtask has prepared that was on its way when the job failed: in no manifest."""
        match message:
            case Acknowledged(subtask, _, Snapshot(handle=handle)) if handle is not None:
                return [Abort(subtask, handle)]
            case Abandoned(subtask, handle=handle) if handle is not None:
                return [Abort(subtask, handle)]
            case Finished(subtask, Snapshot(handle=handle)) if handle is not None:
                return [Abort(subtask, handle)]
        return []

    def _answered(self, message: ToCoordinator, now: float) -> list[ToAnybody]:
        """What a message means to the checkpoint that is being taken."""
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
        """What follows from where things stand."""
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
        if not done and checkpoints.state == "resting":
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
        hint = "checkpoint.tolerable_failures says how many may fail in a row"
        return self.fail(
            Failure(
                f"{count} failed: {self.checkpoints.why}", "checkpoints", hint=hint, may_pass=True
            )
        )

    def _over(self) -> list[ToAnybody]:
        """Nothing is to come, and all is kept: the end, when all is committed."""
        if self._committing or self.state not in ("ending", "stopping"):
            return []
        if self.checkpoints is not None and self.checkpoints.state == "committing":
            return []
        if self.state == "ending":
            self.state = "done"
            return []
        self.state = "leaving"
        return [Cancel()]

    def _counted(self, messages: Sequence[ToAnybody]) -> list[ToAnybody]:
        self._committing += sum(isinstance(message, Commit) for message in messages)
        return list(messages)

    def _reported(self, subtask: SubtaskId, at_us: int | None) -> list[ToAnybody]:
        """How far a subtask has come; the others are told if it changes how far they may go."""
        for name, drift in self.drifts.items():
            if subtask in self.sources[name].readers:
                until_us = drift.reported(subtask, at_us)
                return [] if until_us is None else [Hold(name, until_us)]
        return []

    @property
    def over(self) -> bool:
        """Whether nothing more will be said."""
        return self.state in ("done", "failed")

    @property
    def ended(self) -> bool:
        """Whether all has been read, put out and committed."""
        return self.state == "done" and not self._running and not self.drains
