"""The checkpoints of a running job, one after the other: a state machine. Times are passed in.

| state        | due, requested   | all replied | declined | ManifestWritten | ManifestFailed |
|--------------|------------------|-------------|----------|-----------------|----------------|
| idle         | 1 > snapshotting | -           | -        | -               | -              |
| snapshotting | 5                | 2 > writing | 4 > idle | -               | -              |
| writing      | 5                | -           | -        | 3 > committing  | 4 > idle       |
| committing   | 5                | -           | -        | -               | -              |

A timeout counts as declined. CommitRecorded leads from committing back to idle.

1: TriggerCheckpoint to the sources. 2: WriteManifest to the store. 3: CommitOutput to the sinks.
4: the job continues without the checkpoint. 5: a requested checkpoint must contain all input that
came before the request, so the next checkpoint serves the request, and begins at once.

No checkpoint begins before all output of the last complete one is committed and that is recorded.
So a job that resumes from a checkpoint has to commit at most the output of that one, and a sink may
reuse the resources of that output (a transaction id, say) as soon as it sees the next barrier.

A subtask answers by SnapshotAcknowledged, or by SubtaskFinished if it ended before it saw the
barrier: it never will, and its consumers take its end for the barrier.

Prepared output is carried until a manifest that names it is durable, even if the checkpoint for
which it was prepared fails: a failed checkpoint loses no output. Output that a sink prepares at its
end, after it has answered a checkpoint, belongs to the next checkpoint: its rows come after the
barrier, and a job that resumes from the earlier checkpoint reads them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from headrace.core.messages import (
    Abandoned,
    Acknowledged,
    CheckpointFailed,
    CheckpointTaken,
    Commit,
    Handle,
    Keep,
    Snapshot,
    SubtaskId,
    ToAnybody,
    Trigger,
)

State: TypeAlias = Literal["idle", "snapshotting", "writing", "committing"]
Prepared: TypeAlias = "tuple[SubtaskId, Handle]"


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The schedule of checkpoints, and how many may fail in a row."""

    every_s: float | None = None
    min_pause_s: float = 0.0
    timeout_s: float = 600.0
    tolerable: int = 3


@dataclass(slots=True)
class Checkpoints:
    """The state machine that takes checkpoints. `number` is that of the last one that was begun."""

    subtasks: tuple[SubtaskId, ...]
    rhythm: Rhythm = field(default_factory=Rhythm)
    number: int = 0
    state: State = "idle"
    failed: int = 0
    """The number of failures since the last complete checkpoint."""
    why: str = ""
    """The reason of the last failure."""
    drained: bool = False
    """Whether the job is being drained: its final checkpoint is one to resume from."""
    kept: int | None = None
    """The number of the last complete checkpoint."""
    _came: dict[SubtaskId, Snapshot] = field(default_factory=dict)
    _finished: dict[SubtaskId, Snapshot] = field(default_factory=dict)
    _prepared: list[Prepared] = field(default_factory=list)
    _behind: list[Prepared] = field(default_factory=list)
    """Output that was prepared after the barrier of the current checkpoint."""
    _named: int = 0
    """The number of prepared handles that are named by the manifest that is being written."""
    _since: float = 0.0
    _due: float | None = None
    _again: bool = False
    """Whether a checkpoint was requested while another was being taken."""
    _asked: bool = False
    """Whether the current checkpoint was requested: then its failure is not counted."""

    def start(self, now: float) -> None:
        """Start the schedule: the first checkpoint is due one interval from now."""
        self._since = now
        if self.rhythm.every_s is not None:
            self._due = now + self.rhythm.every_s

    def due(self) -> float | None:
        """Return the time at which `tick` is due, if it is."""
        match self.state:
            case "idle":
                return self._due
            case "snapshotting":
                return self._since + self.rhythm.timeout_s
        return None

    def tick(self, now: float) -> list[ToAnybody]:
        """Begin a checkpoint that is due, or fail one that has timed out."""
        due = self.due()
        if due is None or now < due:
            return []
        if self.state == "snapshotting":
            missing = len(self.subtasks) - len(self._came)
            late = "1 subtask has" if missing == 1 else f"{missing} subtasks have"
            why = f"{late} not answered within {self.rhythm.timeout_s:g} s"
            return self._give_up(why, now)
        return self.begin(now)

    def begin(self, now: float) -> list[ToAnybody]:
        """Begin a checkpoint; none may be in progress."""
        assert self.state == "idle", self.state
        self.number += 1
        self.state, self._since = "snapshotting", now
        self._asked, self._again = self._again, False
        self._came = dict(self._finished)
        return self._complete() or [Trigger(self.number)]

    def ask(self, now: float) -> tuple[int, list[ToAnybody]]:
        """Request a checkpoint of all input so far. Return its number and the messages to send."""
        self._again = True
        if self.state == "idle":
            messages = self.begin(now)
            return self.number, messages
        return self.number + 1, []

    def drain(self, now: float) -> list[ToAnybody]:
        """Take no more checkpoints but the final one: while draining, no other one is valid."""
        self.drained, self._asked, self._again = True, True, False
        return self._give_up("the job is drained", now) if self.state == "snapshotting" else []

    def acknowledged(self, message: Acknowledged) -> list[ToAnybody]:
        """Record that the snapshot of a subtask is stored."""
        self._prepare(message.subtask, message.snapshot.handle, self._prepared)
        if self.state != "snapshotting" or message.number != self.number:
            return []
        self._came[message.subtask] = _bare(message.snapshot)
        return self._complete()

    def abandoned(self, message: Abandoned, now: float) -> list[ToAnybody]:
        """Fail the current checkpoint, because a subtask's snapshot could not be stored."""
        self._prepare(message.subtask, message.handle, self._prepared)
        if self.state != "snapshotting" or message.number != self.number:
            return []
        return self._give_up(message.why, now)

    def finished(self, subtask: SubtaskId, snapshot: Snapshot) -> list[ToAnybody]:
        """Record that a subtask has finished: its snapshot is final."""
        if self.state == "snapshotting" and subtask in self._came:
            self._prepare(subtask, snapshot.handle, self._behind)
        else:
            self._prepare(subtask, snapshot.handle, self._prepared)
        self._finished[subtask] = _bare(snapshot)
        if self.state != "snapshotting":
            return []
        self._came.setdefault(subtask, self._finished[subtask])
        return self._complete()

    def written(self, number: int, now: float) -> list[ToAnybody]:
        """Complete the checkpoint, and commit all output that its manifest names."""
        assert (self.state, number) == ("writing", self.number)
        named, self._prepared = self._prepared[: self._named], self._prepared[self._named :]
        self._named, self.failed, self.kept = 0, 0, number
        taken = CheckpointTaken(number, now - self._since)
        self.state = "committing"
        return [taken, *(Commit(subtask, handle) for subtask, handle in named)]

    def noted(self, number: int, now: float) -> list[ToAnybody]:
        """Become idle: no later attempt will commit the output of the checkpoint again."""
        assert (self.state, number) == ("committing", self.number)
        self._rest(now)
        return []

    def not_written(self, number: int, why: str, now: float) -> list[ToAnybody]:
        """Fail the checkpoint, because its manifest could not be written."""
        assert (self.state, number) == ("writing", self.number)
        self._named = 0
        return self._give_up(why, now)

    @property
    def too_many(self) -> bool:
        """Whether more checkpoints have failed in a row than the job tolerates."""
        return self.failed > self.rhythm.tolerable

    @property
    def unnamed(self) -> tuple[Prepared, ...]:
        """The prepared output that is named by no manifest, not even one that is being written."""
        return (*self._prepared[self._named :], *self._behind)

    def _prepare(self, subtask: SubtaskId, handle: Handle | None, carried: list[Prepared]) -> None:
        if handle is not None:
            carried.append((subtask, handle))

    def _complete(self) -> list[ToAnybody]:
        if len(self._came) < len(self.subtasks):
            return []
        self.state, self._named = "writing", len(self._prepared)
        ended = self._came == self._finished and not self._behind
        return [
            Keep(
                self.number,
                dict(self._came),
                tuple(self._prepared),
                ended and not self.drained,
                ended and self.drained,
            )
        ]

    def _give_up(self, why: str, now: float) -> list[ToAnybody]:
        if not self._asked:
            self.failed, self.why = self.failed + 1, why
        seconds = now - self._since
        self._rest(now)
        return [CheckpointFailed(self.number, why, seconds)]

    def _rest(self, now: float) -> None:
        self.state = "idle"
        self._prepared += self._behind
        self._behind.clear()
        every_s, self._due = self.rhythm.every_s, None
        if every_s is not None:
            self._due = max(self._since + every_s, now + self.rhythm.min_pause_s)
        if self._again:
            self._due = now


def _bare(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without its handle, which is carried separately."""
    return replace(snapshot, handle=None)
