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

While the regions of a lost worker restart, no checkpoint begins (`suspend`, `resume`): one that is
being taken is given up, and one that is being written or committed is brought to its end. A request
waits for the end of the restart; a requested checkpoint that was given up is taken again after it.

Prepared output is carried until a manifest that names it is durable, even if the checkpoint for
which it was prepared fails: a failed checkpoint loses no output. Output that a sink prepares at its
end, after it has answered a checkpoint, belongs to the next checkpoint: its rows come after the
barrier, and a job that resumes from the earlier checkpoint reads them again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field, replace
from typing import Literal, TypeAlias

from headrace.core.api.splits import Failure, Handle, SubtaskId
from headrace.core.coordination.messages import (
    CheckpointCompleted,
    CheckpointFailed,
    CommitOutput,
    CoordinatorAction,
    Snapshot,
    SnapshotAcknowledged,
    SnapshotDeclined,
    TriggerCheckpoint,
    WriteManifest,
)
from headrace.core.types.lazy_dataclass import dataclass

CheckpointState: TypeAlias = Literal["idle", "snapshotting", "writing", "committing"]
PreparedHandle: TypeAlias = "tuple[SubtaskId, Handle]"


@dataclass(frozen=True, slots=True)
class CheckpointSchedule:
    """The schedule of checkpoints, and how many may fail in a row."""

    interval_s: float | None = None
    min_pause_s: float = 0.0
    timeout_s: float = 600.0
    tolerable_failures: int = 3


@dataclass(slots=True)
class CheckpointCoordinator:
    """The state machine that takes checkpoints. `number` is that of the last one that was begun."""

    subtasks: tuple[SubtaskId, ...]
    schedule: CheckpointSchedule = field(default_factory=CheckpointSchedule)
    number: int = 0
    state: CheckpointState = "idle"
    failure_count: int = 0
    """The number of failures since the last complete checkpoint."""
    failure_reason: str = ""
    """The reason of the last failure."""
    is_drained: bool = False
    """Whether the job is being drained: its final checkpoint is one to resume from."""
    is_suspended: bool = False
    """Whether no checkpoint may begin, because a part of the job does not run."""
    completed_number: int | None = None
    """The number of the last complete checkpoint."""
    earlier_snapshots: tuple[Snapshot, ...] = ()
    """The snapshots from which subtasks have restarted: their row counters go on from there."""
    _snapshots: dict[SubtaskId, Snapshot] = field(default_factory=dict)
    _final_snapshots: dict[SubtaskId, Snapshot] = field(default_factory=dict)
    _restart_snapshots: dict[SubtaskId, Snapshot] = field(default_factory=dict)
    """The snapshots of the last complete checkpoint, of subtasks that have not restarted since."""
    _prepared_output: list[PreparedHandle] = field(default_factory=list)
    _output_after_barrier: list[PreparedHandle] = field(default_factory=list)
    """Output that was prepared after the barrier of the current checkpoint."""
    _output_in_manifest: int = 0
    """The number of prepared handles that are named by the manifest that is being written."""
    _started_at: float = 0.0
    _next_start: float | None = None
    _is_next_requested: bool = False
    """Whether a checkpoint was requested while another was being taken."""
    _is_requested: bool = False
    """Whether the current checkpoint was requested: then its failure is not counted."""

    def start(self, now: float) -> None:
        """Start the schedule: the first checkpoint is due one interval from now."""
        self._started_at = now
        if self.schedule.interval_s is not None:
            self._next_start = now + self.schedule.interval_s

    def next_deadline(self) -> float | None:
        """Return the time at which `tick` is due, if it is."""
        match self.state:
            case "idle":
                return None if self.is_suspended else self._next_start
            case "snapshotting":
                return self._started_at + self.schedule.timeout_s
        return None

    def tick(self, now: float) -> list[CoordinatorAction]:
        """Begin a checkpoint that is due, or fail one that has timed out."""
        due = self.next_deadline()
        if due is None or now < due:
            return []
        if self.state == "snapshotting":
            missing = len(self.subtasks) - len(self._snapshots)
            late = "1 subtask has" if missing == 1 else f"{missing} subtasks have"
            why = f"{late} not answered within {self.schedule.timeout_s:g} s"
            return self._fail_checkpoint(why, now)
        return self.begin_checkpoint(now)

    def begin_checkpoint(self, now: float) -> list[CoordinatorAction]:
        """Begin a checkpoint; none may be in progress."""
        assert self.state == "idle", self.state
        self.number += 1
        self.state, self._started_at = "snapshotting", now
        self._is_requested, self._is_next_requested = self._is_next_requested, False
        self._snapshots = dict(self._final_snapshots)
        return self._complete_snapshots() or [TriggerCheckpoint(self.number)]

    def request_checkpoint(self, now: float) -> tuple[int, list[CoordinatorAction]]:
        """Request a checkpoint of all input so far. Return its number and the messages to send."""
        self._is_next_requested = True
        if self.state == "idle" and not self.is_suspended:
            messages = self.begin_checkpoint(now)
            return self.number, messages
        return self.number + 1, []

    def suspend(self, why: str, now: float) -> list[CoordinatorAction]:
        """Begin no checkpoint until `resume`; give up the one that waits for snapshots."""
        self.is_suspended = True
        if self.state != "snapshotting":
            return []
        self._is_next_requested = self._is_next_requested or self._is_requested
        self._become_idle(now)
        seconds = now - self._started_at
        return [CheckpointFailed(self.number, why, seconds, self._is_requested)]

    def resume(self, now: float) -> list[CoordinatorAction]:
        """Begin checkpoints again: at once if one is due or was requested."""
        self.is_suspended = False
        if self._is_next_requested:
            self._next_start = now
        return self.tick(now)

    def remove_subtasks(self, subtasks: Collection[SubtaskId]) -> list[PreparedHandle]:
        """Forget the final snapshots of subtasks, which restart from the last complete checkpoint.

        Return their output that no manifest names. No checkpoint may be in progress.
        """
        assert self.state == "idle", self.state
        removed = [each for each in self._prepared_output if each[0] in subtasks]
        self._prepared_output = [each for each in self._prepared_output if each[0] not in subtasks]
        for subtask in subtasks:
            self._final_snapshots.pop(subtask, None)
            if (earlier := self._restart_snapshots.pop(subtask, None)) is not None:
                self.earlier_snapshots += (earlier,)
        return removed

    def begin_drain(self, now: float) -> list[CoordinatorAction]:
        """Take no more checkpoints but the final one: while draining, no other one is valid."""
        self.is_drained, self._is_requested, self._is_next_requested = True, True, False
        return (
            self._fail_checkpoint("the job is drained", now) if self.state == "snapshotting" else []
        )

    def get_awaited(self) -> tuple[str, tuple[SubtaskId, ...]]:
        """Return what the checkpoint waits for, and the subtasks that have not answered."""
        name = f"checkpoint {self.number}"
        match self.state:
            case "snapshotting":
                return name, tuple(s for s in self.subtasks if s not in self._snapshots)
            case "committing":
                return f"the commit of {name}", ()
        return f"{name} to be written", ()

    def on_snapshot_acknowledged(self, message: SnapshotAcknowledged) -> list[CoordinatorAction]:
        """Record that the snapshot of a subtask is stored."""
        self._add_output(message.subtask, message.snapshot.handle, self._prepared_output)
        if self.state != "snapshotting" or message.number != self.number:
            return []
        self._snapshots[message.subtask] = _strip_handle(message.snapshot)
        return self._complete_snapshots()

    def on_snapshot_declined(
        self, message: SnapshotDeclined, now: float
    ) -> list[CoordinatorAction]:
        """Fail the current checkpoint, because a subtask's snapshot could not be stored."""
        self._add_output(message.subtask, message.handle, self._prepared_output)
        if self.state != "snapshotting" or message.number != self.number:
            return []
        return self._fail_checkpoint(message.reason, now)

    def on_subtask_finished(
        self, subtask: SubtaskId, snapshot: Snapshot
    ) -> list[CoordinatorAction]:
        """Record that a subtask has finished: its snapshot is final."""
        if self.state == "snapshotting" and subtask in self._snapshots:
            self._add_output(subtask, snapshot.handle, self._output_after_barrier)
        else:
            self._add_output(subtask, snapshot.handle, self._prepared_output)
        self._final_snapshots[subtask] = _strip_handle(snapshot)
        if self.state != "snapshotting":
            return []
        self._snapshots.setdefault(subtask, self._final_snapshots[subtask])
        return self._complete_snapshots()

    def on_manifest_written(self, number: int, now: float) -> list[CoordinatorAction]:
        """Complete the checkpoint, and commit all output that its manifest names."""
        assert (self.state, number) == ("writing", self.number)
        named, self._prepared_output = (
            self._prepared_output[: self._output_in_manifest],
            self._prepared_output[self._output_in_manifest :],
        )
        self._output_in_manifest, self.failure_count, self.completed_number = 0, 0, number
        self._restart_snapshots = dict(self._snapshots)
        event = CheckpointCompleted(number, now - self._started_at)
        self.state = "committing"
        return [event, *(CommitOutput(subtask, handle) for subtask, handle in named)]

    def on_commit_recorded(self, number: int, now: float) -> list[CoordinatorAction]:
        """Become idle: no later attempt will commit the output of the checkpoint again."""
        assert (self.state, number) == ("committing", self.number)
        self._become_idle(now)
        return []

    def on_manifest_failed(self, number: int, why: str, now: float) -> list[CoordinatorAction]:
        """Fail the checkpoint, because its manifest could not be written."""
        assert (self.state, number) == ("writing", self.number)
        self._output_in_manifest = 0
        return self._fail_checkpoint(why, now)

    @property
    def has_too_many_failures(self) -> bool:
        """Whether more checkpoints have failed in a row than the job tolerates."""
        return self.failure_count > self.schedule.tolerable_failures

    def build_failure(self) -> Failure:
        """Return the failure of a job of which too many checkpoints have failed."""
        failed = self.failure_count
        count = f"{failed} checkpoints in a row" if failed > 1 else "a checkpoint"
        return Failure(
            f"{count} failed: {self.failure_reason}",
            "checkpoints",
            hint="checkpoint.tolerable_failures sets how many may fail in a row",
            is_transient=True,
        )

    @property
    def unlisted_output(self) -> tuple[PreparedHandle, ...]:
        """The prepared output that is named by no manifest, not even one that is being written."""
        return (*self._prepared_output[self._output_in_manifest :], *self._output_after_barrier)

    def _add_output(
        self, subtask: SubtaskId, handle: Handle | None, carried: list[PreparedHandle]
    ) -> None:
        if handle is not None:
            carried.append((subtask, handle))

    def _complete_snapshots(self) -> list[CoordinatorAction]:
        if len(self._snapshots) < len(self.subtasks):
            return []
        self.state, self._output_in_manifest = "writing", len(self._prepared_output)
        ended = self._snapshots == self._final_snapshots and not self._output_after_barrier
        return [
            WriteManifest(
                self.number,
                dict(self._snapshots),
                tuple(self._prepared_output),
                ended and not self.is_drained,
                ended and self.is_drained,
                self.earlier_snapshots,
            )
        ]

    def _fail_checkpoint(self, why: str, now: float) -> list[CoordinatorAction]:
        if not self._is_requested:
            self.failure_count, self.failure_reason = self.failure_count + 1, why
        seconds = now - self._started_at
        self._become_idle(now)
        return [CheckpointFailed(self.number, why, seconds)]

    def _become_idle(self, now: float) -> None:
        self.state = "idle"
        self._prepared_output += self._output_after_barrier
        self._output_after_barrier.clear()
        every_s, self._next_start = self.schedule.interval_s, None
        if every_s is not None:
            self._next_start = max(self._started_at + every_s, now + self.schedule.min_pause_s)
        if self._is_next_requested:
            self._next_start = now


def _strip_handle(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without its handle, which is carried separately."""
    return replace(snapshot, handle=None)
