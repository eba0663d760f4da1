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

A lost worker (RegionsLost) fails the attempt too, unless the job is running, takes checkpoints and
has subtasks that the worker's regions have not: then only these restart, in the state `running`.
When no checkpoint is in progress, their output that no manifest names is aborted and RestartRegions
is sent; RegionsReady leads to Deploy of them, from the last complete checkpoint. Until then their
late events count for nothing, except that late output is aborted, and no checkpoint begins. Another
loss begins the restart again, with the subtasks of both. A stop ends the job with the last complete
checkpoint instead of restarting them; a stop that drains fails the attempt, as they have to finish.

A job that cannot resume from a checkpoint, because one of its sources cannot be read again, takes
none (`checkpoints` is None): all output is committed at its end, and a stop finishes what was read,
with StopSources instead of PauseSources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from headrace.core.api.splits import Failure, Handle, Split, SubtaskId
from headrace.core.coordination.checkpoint_coordinator import CheckpointCoordinator
from headrace.core.coordination.loop_waves import AllLoopWaves
from headrace.core.coordination.messages import (
    AbortOutput,
    AttemptCancelled,
    Cancel,
    CommitOutput,
    CommitRecorded,
    CoordinatorAction,
    CoordinatorEvent,
    Deploy,
    LoopTimeHeld,
    LoopWaveReturned,
    ManifestFailed,
    ManifestWritten,
    OutputCommitted,
    PauseSources,
    RegionsLost,
    RegionsReady,
    RestartRegions,
    RestoredState,
    SetDriftLimit,
    Snapshot,
    SnapshotAcknowledged,
    SnapshotDeclined,
    StopSources,
    SubtaskCommitted,
    SubtaskFailed,
    SubtaskFinished,
    WatermarkReport,
)
from headrace.core.coordination.split_assignment import SplitAssigner
from headrace.core.coordination.watermark_alignment import WatermarkAlignment
from headrace.core.types.lazy_dataclass import dataclass

CoordinatorState: TypeAlias = Literal[
    "new", "running", "stopping", "ending", "cancelling", "failing", "done", "failed"
]


@dataclass(slots=True)
class Coordinator:
    """The coordinator of one attempt of a job."""

    subtasks: tuple[SubtaskId, ...]
    split_assigners: Mapping[str, SplitAssigner]
    """The assignment of splits to subtasks, by source."""
    watermark_alignments: Mapping[str, WatermarkAlignment] = field(default_factory=dict)
    """The watermark alignment of the sources that have a `max_drift`."""
    checkpoints: CheckpointCoordinator | None = None
    attempt: int = 1
    loops: AllLoopWaves = field(default_factory=AllLoopWaves)
    state: CoordinatorState = "new"
    failure: Failure | None = None
    is_stopped: bool = False
    is_draining: bool = False
    """Whether all that was read is finished before the stop, as at the end of event time."""
    _running_subtasks: set[SubtaskId] = field(default_factory=set)
    _prepared_output: dict[SubtaskId, Handle] = field(default_factory=dict)
    """Without checkpoints: the output to commit at the end."""
    _pending_commits: int = 0
    """The number of commits that have not been answered."""
    _final_checkpoint: int | None = None
    """The number of the checkpoint that was begun after the last input."""

    _restarting_subtasks: frozenset[SubtaskId] = frozenset()
    """The subtasks of regions that were lost and have not been deployed again."""
    _loss: Failure | None = None
    """The last loss of a worker."""
    _restart: int = 0
    """The number of the last restart of regions."""
    _is_restart_sent: bool = False
    """Whether RestartRegions was sent for the last restart."""

    def start(
        self,
        splits: Mapping[str, Sequence[Split]],
        restored: RestoredState | None = None,
        now: float = 0.0,
    ) -> list[CoordinatorAction]:
        """Deploy all subtasks and assign the splits."""
        restored = restored or RestoredState()
        self.state = "running"
        self._running_subtasks = set(self.subtasks)
        if self.checkpoints is not None:
            self.checkpoints.start(now)
        messages: list[CoordinatorAction] = [Deploy(self.attempt, self.subtasks, restored)]
        for name, dealing in self.split_assigners.items():
            messages.extend(dealing.assign_initial(splits.get(name, ()), restored.splits.get(name)))
        return messages

    def can_assign_splits(self, source: str) -> bool:
        """Whether newly discovered splits of a source would be read."""
        is_running = self.state == "running" and not self.is_stopped
        return is_running and not self._running_subtasks.isdisjoint(
            self.split_assigners[source].readers
        )

    def assign_discovered(self, source: str, splits: Sequence[Split]) -> list[CoordinatorAction]:
        """Assign those of the discovered splits of a source that are new."""
        if not self.can_assign_splits(source):
            return []
        readers = self._running_subtasks - self._restarting_subtasks
        return list(self.split_assigners[source].assign_new(splits, readers))

    def request_checkpoint(self, now: float = 0.0) -> tuple[int, list[CoordinatorAction]] | None:
        """Request a checkpoint of all input so far. Return its number; None if the job is ending.

        OutputCommitted reports its success, CheckpointFailed its failure.
        """
        if self.checkpoints is None or self.state != "running" or self.is_stopped:
            return None
        return self.checkpoints.request_checkpoint(now)

    def stop(self, now: float = 0.0, *, drains: bool = False) -> list[CoordinatorAction]:
        """Begin to stop the job."""
        if self.state != "running" or self.is_stopped:
            return []
        self.is_stopped = True
        if self._loss is not None and self._restarting_subtasks:
            self._is_restart_sent = False
            return self.fail(self._loss) if drains else self._send_restart()
        if self.checkpoints is None:
            return [StopSources()]
        if drains:
            self.is_draining = True
            return [*self.checkpoints.begin_drain(now), StopSources(is_drain=True)]
        self.state = "stopping"
        return [PauseSources(), *self._advance(now)]

    def get_awaited(self) -> tuple[str, tuple[SubtaskId, ...]]:
        """Return what the end of a stop waits for, and the subtasks that have not answered."""
        checkpoints = self.checkpoints
        if self.state in ("new", "running"):
            what = ("the rows that were read", *self.loops.describe_rows())
            return ", ".join(what), tuple(sorted(self._running_subtasks))
        if self.state in ("stopping", "ending") and checkpoints is not None:
            return checkpoints.get_awaited()
        return "the end of its tasks", ()

    def next_deadline(self) -> float | None:
        """Return the time of the next `tick`, if one is due."""
        if self.state not in ("running", "stopping", "ending"):
            return None
        due = [self.loops.next_deadline()]
        if self._takes_checkpoints and self.checkpoints is not None:
            due.append(self.checkpoints.next_deadline())
        return min((at for at in due if at is not None), default=None)

    @property
    def _takes_checkpoints(self) -> bool:
        """Whether checkpoints begin by themselves."""
        return not (self.state == "running" and self.is_draining)

    def tick(self, now: float) -> list[CoordinatorAction]:
        """Advance the checkpoints and the waves of loops to this time."""
        if self.next_deadline() is None:
            return []
        waves = self.loops.tick(now)
        if self.checkpoints is None or not self._takes_checkpoints:
            return waves
        return [*waves, *self.checkpoints.tick(now), *self._advance(now)]

    def receive(self, message: CoordinatorEvent, now: float = 0.0) -> list[CoordinatorAction]:
        """Return the messages that answer an event."""
        if self._is_of_restart(message):
            return self._abort_late_output(message)
        match message:
            case RegionsLost(_, subtasks, failure):
                return self._lose_subtasks(subtasks, failure, now)
            case RegionsReady(restart, restored):
                return self._deploy_regions(restart, restored, now)
            case SubtaskFailed(_, failure):
                return self.fail(failure)
            case WatermarkReport(subtask, at_us):
                return self._update_alignment(subtask, at_us)
            case LoopTimeHeld() | LoopWaveReturned():
                is_running = self.state in ("running", "stopping", "ending")
                return self.loops.receive(message, now) if is_running else []
            case AttemptCancelled() if self.state in ("failing", "cancelling"):
                self.state = "failed" if self.state == "failing" else "done"
                return []
            case SubtaskCommitted(subtask):
                self._pending_commits -= 1
                self._prepared_output.pop(subtask, None)
        if self.state in ("failing", "cancelling"):
            return self._abort_late_output(message)
        if self.state not in ("running", "stopping", "ending"):
            return []
        answers = self._forward_event(message, now)
        visible = (
            self._report_committed()
            if isinstance(message, SubtaskCommitted | ManifestWritten)
            else []
        )
        return [*answers, *visible, *self._send_restart(), *self._advance(now)]

    def _is_of_restart(self, message: CoordinatorEvent) -> bool:
        """Whether an event is of a subtask that restarts, and does not concern the job any more."""
        match message:
            case (
                SnapshotAcknowledged(subtask)
                | SnapshotDeclined(subtask)
                | SubtaskFinished(subtask)
                | WatermarkReport(subtask)
            ):
                return subtask in self._restarting_subtasks
            case SubtaskFailed(subtask):
                # While output is being committed, it may be the failure of a commit.
                return subtask in self._restarting_subtasks and not self._pending_commits
        return False

    def _lose_subtasks(
        self, subtasks: frozenset[SubtaskId], failure: Failure, now: float
    ) -> list[CoordinatorAction]:
        """Begin to restart the regions of a lost worker, or fail the attempt."""
        checkpoints, restarting = self.checkpoints, self._restarting_subtasks | subtasks
        is_partial = bool(subtasks) and not restarting.issuperset(self.subtasks)
        if self.state != "running" or self.is_stopped or checkpoints is None or not is_partial:
            return self.fail(failure)
        self._restarting_subtasks, self._loss = restarting, failure
        self._running_subtasks |= restarting
        self._restart, self._is_restart_sent = self._restart + 1, False
        limits = [
            message for each in sorted(subtasks) for message in self._update_alignment(each, None)
        ]
        return [*checkpoints.suspend(failure.message, now), *limits, *self._send_restart()]

    def _send_restart(self) -> list[CoordinatorAction]:
        """Return RestartRegions once no checkpoint is in progress: then the last one is known.

        A job that is being stopped ends instead, with that checkpoint.
        """
        checkpoints = self.checkpoints
        if not self._restarting_subtasks or self._is_restart_sent or checkpoints is None:
            return []
        if checkpoints.state != "idle" or self._loss is None:
            return []
        self._is_restart_sent = True
        if self.is_stopped:
            self.state = "cancelling"
            return self._cancel()
        subtasks = tuple(sorted(self._restarting_subtasks))
        unnamed = checkpoints.remove_subtasks(subtasks)
        return [
            *(AbortOutput(subtask, handle) for subtask, handle in unnamed),
            RestartRegions(self._restart, subtasks, checkpoints.completed_number, self._loss),
        ]

    def _deploy_regions(
        self, restart: int, restored: RestoredState, now: float
    ) -> list[CoordinatorAction]:
        """Deploy the subtasks of a restart, with their splits; then checkpoints may begin again."""
        is_awaited = bool(self._restarting_subtasks) and self._is_restart_sent
        if self.state != "running" or restart != self._restart or not is_awaited:
            return []
        assert self.checkpoints is not None
        subtasks = tuple(sorted(self._restarting_subtasks))
        self._restarting_subtasks, self._loss = frozenset(), None
        messages: list[CoordinatorAction] = [Deploy(self.attempt, subtasks, restored)]
        for name, assigner in self.split_assigners.items():
            messages += assigner.reassign(subtasks, restored.splits.get(name, {}))
            drift = self.watermark_alignments.get(name)
            is_read = not set(subtasks).isdisjoint(assigner.readers)
            if is_read and drift is not None and drift.limit_us is not None:
                messages.append(SetDriftLimit(name, drift.limit_us))
        return [*messages, *self.checkpoints.resume(now), *self._advance(now)]

    def _report_committed(self) -> list[CoordinatorAction]:
        """Return OutputCommitted if a complete checkpoint has no commits left."""
        checkpoints = self.checkpoints
        if self._pending_commits or checkpoints is None or checkpoints.state != "committing":
            return []
        return [OutputCommitted(checkpoints.number)]

    def fail(self, failure: Failure) -> list[CoordinatorAction]:
        """Fail the attempt; failures after the first are not reported."""
        if self.state not in ("running", "stopping", "ending"):
            return []
        self.state, self.failure = "failing", failure
        return self._cancel()

    def _cancel(self) -> list[CoordinatorAction]:
        """End all subtasks, and abort their output that no manifest names."""
        unnamed = (
            self.checkpoints.unlisted_output
            if self.checkpoints
            else sorted(self._prepared_output.items())
        )
        return [Cancel(), *(AbortOutput(subtask, handle) for subtask, handle in unnamed)]

    def _abort_late_output(self, message: CoordinatorEvent) -> list[CoordinatorAction]:
        """Abort output whose handle was on its way when the job failed: no manifest names it."""
        match message:
            case SnapshotAcknowledged(subtask, _, Snapshot(handle=handle)) if handle is not None:
                return [AbortOutput(subtask, handle)]
            case SnapshotDeclined(subtask, handle=handle) if handle is not None:
                return [AbortOutput(subtask, handle)]
            case SubtaskFinished(subtask, Snapshot(handle=handle)) if handle is not None:
                return [AbortOutput(subtask, handle)]
        return []

    def _forward_event(self, message: CoordinatorEvent, now: float) -> list[CoordinatorAction]:
        """Pass an event to the checkpoint that is in progress."""
        checkpoints = self.checkpoints
        match message:
            case SubtaskFinished(subtask, snapshot):
                self._running_subtasks.discard(subtask)
                reported = self._update_alignment(subtask, None) if self._running_subtasks else []
                if checkpoints is not None:
                    return [*reported, *checkpoints.on_subtask_finished(subtask, snapshot)]
                if snapshot.handle is not None:
                    self._prepared_output[subtask] = snapshot.handle
                return reported
        if checkpoints is None:
            return []
        match message:
            case SnapshotAcknowledged():
                return checkpoints.on_snapshot_acknowledged(message)
            case SnapshotDeclined():
                return checkpoints.on_snapshot_declined(message, now)
            case ManifestWritten(number):
                return self._count_commits(checkpoints.on_manifest_written(number, now))
            case ManifestFailed(number, why):
                return checkpoints.on_manifest_failed(number, why, now)
            case CommitRecorded(number):
                return checkpoints.on_commit_recorded(number, now)
        return []

    def _advance(self, now: float) -> list[CoordinatorAction]:
        """Make the state transition that has become possible, if any."""
        if self.state in ("failing", "cancelling"):
            return []
        if self.state in ("running", "stopping") and not self._running_subtasks:
            self.state, self._final_checkpoint = "ending", None
            if self.checkpoints is None:
                commits = [CommitOutput(s, h) for s, h in sorted(self._prepared_output.items())]
                return [*self._count_commits(commits), *self._end_if_committed()]
        checkpoints = self.checkpoints
        if checkpoints is None or self.state == "running":
            return self._check_failure_limit() if checkpoints else self._end_if_committed()
        if checkpoints.has_too_many_failures:
            return self._check_failure_limit()
        done = (
            self._final_checkpoint is not None
            and checkpoints.completed_number == self._final_checkpoint
        )
        if not done and checkpoints.state == "idle":
            begun = checkpoints.begin_checkpoint(now)
            self._final_checkpoint = checkpoints.number
            return begun
        return self._end_if_committed() if done else []

    def _check_failure_limit(self) -> list[CoordinatorAction]:
        """Fail the job when too many checkpoints have failed."""
        assert self.checkpoints is not None
        if not self.checkpoints.has_too_many_failures:
            return []
        return self.fail(self.checkpoints.build_failure())

    def _end_if_committed(self) -> list[CoordinatorAction]:
        """End the attempt when no input is left and all output is committed."""
        if self._pending_commits or self.state not in ("ending", "stopping"):
            return []
        if self.checkpoints is not None and self.checkpoints.state == "committing":
            return []
        if self.state == "ending":
            self.state = "done"
            return []
        self.state = "cancelling"
        return [Cancel()]

    def _count_commits(self, messages: Sequence[CoordinatorAction]) -> list[CoordinatorAction]:
        self._pending_commits += sum(isinstance(message, CommitOutput) for message in messages)
        return list(messages)

    def _update_alignment(self, subtask: SubtaskId, at_us: int | None) -> list[CoordinatorAction]:
        """Record a subtask's watermark; send a new drift limit if the watermark changes it."""
        for name, drift in self.watermark_alignments.items():
            if subtask in self.split_assigners[name].readers:
                until_us = drift.update(subtask, at_us)
                return [] if until_us is None else [SetDriftLimit(name, until_us)]
        return []

    @property
    def is_over(self) -> bool:
        """Whether the coordinator will send no more messages."""
        return self.state in ("done", "failed")

    @property
    def is_complete(self) -> bool:
        """Whether all input was read, and all output emitted and committed."""
        return self.state == "done" and not self._running_subtasks and not self.is_draining
