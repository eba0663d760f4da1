"""A job as a state machine: what came from workers, what to say to them, when it is over.

No clock, no I/O: `start`, `discovered`, `stop`, `fail` and `receive` answer with messages, `state`
says how the job ended. `job` is the shell that carries them.

| state      | Finished (all)      | Failed           | Committed (all) | Cancelled | stop |
|------------|---------------------|------------------|-----------------|-----------|------|
| running    | Commit > committing | Cancel > failing | -               | -         | Stop |
| committing | -                   | Cancel > failing | > done          | -         | -    |
| failing    | -                   | -                | -               | > failed  | -    |
| done       | -                   | -                | -               | -         | -    |
| failed     | -                   | -                | -               | -         | -    |

Without anything prepared, committing is passed through. The first failure is the one that is told.
No manifest names what was prepared, so what is not committed yet is aborted with the rest. Behind a
stop nothing is assigned any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from headrace.core.dealing import Dealing
from headrace.core.drift import Drift
from headrace.core.messages import (
    Abort,
    Cancel,
    Cancelled,
    Commit,
    Committed,
    Deploy,
    Failed,
    Failure,
    Finished,
    Handle,
    Hold,
    Split,
    Stop,
    SubtaskId,
    ToCoordinator,
    ToWorker,
    WatermarkReport,
)

State: TypeAlias = Literal["new", "running", "committing", "failing", "done", "failed"]


@dataclass(slots=True)
class Coordinator:
    """One attempt of a job."""

    subtasks: tuple[SubtaskId, ...]
    sources: Mapping[str, Dealing]
    """Who reads each source, by the source's name."""
    drifts: Mapping[str, Drift] = field(default_factory=dict)
    """The sources whose splits are to keep together."""
    state: State = "new"
    failure: Failure | None = None
    stopped: bool = False
    _running: set[SubtaskId] = field(default_factory=set)
    _prepared: dict[SubtaskId, Handle] = field(default_factory=dict)

    def start(self, splits: Mapping[str, Sequence[Split]]) -> list[ToWorker]:
        """Deploy everything and deal out the splits that there are."""
        self.state = "running"
        self._running = set(self.subtasks)
        messages: list[ToWorker] = [Deploy(1, self.subtasks)]
        for name, dealing in self.sources.items():
            messages.extend(dealing.first(splits.get(name, ())))
        return messages

    def reads(self, source: str) -> bool:
        """Whether splits of a source that are discovered now would be read."""
        going_on = self.state == "running" and not self.stopped
        return going_on and not self._running.isdisjoint(self.sources[source].readers)

    def discovered(self, source: str, splits: Sequence[Split]) -> list[ToWorker]:
        """These are the splits of a source now: deal out those that are new."""
        if not self.reads(source):
            return []
        return list(self.sources[source].more(splits, self._running))

    def stop(self) -> list[ToWorker]:
        """Somebody asks for the end: read no more, and finish what was read."""
        if self.state != "running" or self.stopped:
            return []
        self.stopped = True
        return [Stop()]

    def receive(self, message: ToCoordinator) -> list[ToWorker]:
        """What is to be said in answer."""
        match message:
            case Finished(subtask, handle) if self.state == "running":
                return self._finished(subtask, handle)
            case Committed(subtask) if self.state == "committing":
                self._prepared.pop(subtask, None)
                return self._settle()
            case Failed(_, failure):
                return self.fail(failure)
            case WatermarkReport(subtask, at_us):
                return self._reported(subtask, at_us)
            case Cancelled() if self.state == "failing":
                self.state = "failed"
        return []

    def fail(self, failure: Failure) -> list[ToWorker]:
        """Something cannot go on; what comes after the first failure is not told."""
        if self.state not in ("running", "committing"):
            return []
        self.state, self.failure = "failing", failure
        aborts = [Abort(s, h) for s, h in sorted(self._prepared.items())]
        return [Cancel(), *aborts]

    def _finished(self, subtask: SubtaskId, handle: Handle | None) -> list[ToWorker]:
        self._running.discard(subtask)
        if handle is not None:
            self._prepared[subtask] = handle
        if self._running:
            return self._reported(subtask, None)
        self.state = "committing"
        commits: list[ToWorker] = [Commit(s, h) for s, h in sorted(self._prepared.items())]
        return [*commits, *self._settle()]

    def _reported(self, subtask: SubtaskId, at_us: int | None) -> list[ToWorker]:
        """How far a subtask has come; the others are told if it changes how far they may go."""
        for name, drift in self.drifts.items():
            if subtask in self.sources[name].readers:
                until_us = drift.reported(subtask, at_us)
                return [] if until_us is None else [Hold(name, until_us)]
        return []

    def _settle(self) -> list[ToWorker]:
        if not self._prepared:
            self.state = "done"
        return []

    @property
    def over(self) -> bool:
        """Whether nothing more will be said."""
        return self.state in ("done", "failed")
