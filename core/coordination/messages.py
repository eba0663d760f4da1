"""The messages between the coordinator, the worker and the checkpoint store: frozen values.

The same values are used when all of them run in one process. The coordinator sends:

| to | message | meaning |
|---|---|---|
| worker | Deploy | start the subtasks of an attempt, from the restored state |
| worker | AssignSplits | read these splits; `is_last`: no more splits follow |
| worker | TriggerCheckpoint | inject the barrier of a checkpoint at the sources |
| worker | SetDriftLimit | read the splits of a source only up to this event time |
| worker | PauseSources | stop reading and wait for a checkpoint; no subtask ends |
| worker | StopSources | stop reading and finish what was read |
| worker | Cancel | end all subtasks now; uncommitted output is aborted |
| worker | BeginLoopWave | send the marker of a wave into a loop |
| worker | ReleaseLoopTime | a loop is empty: pass on the watermark or the end that is held |
| worker | RestartRegions | end what still runs of these subtasks, and load their checkpoint |
| committer | CommitOutput | commit prepared output |
| committer | AbortOutput | remove prepared output |
| store | WriteManifest | all snapshots of a checkpoint are stored: write its manifest |
| store | OutputCommitted | record that all output of a checkpoint is committed |
| observers | CheckpointCompleted, CheckpointFailed | the outcome of a checkpoint |

The coordinator receives:

| from | message | meaning |
|---|---|---|
| store | ManifestWritten | the manifest is durable: the checkpoint is complete |
| store | ManifestFailed | the manifest does not exist and never will |
| store | CommitRecorded | the record that the output is committed is durable |
| worker | SnapshotAcknowledged | the snapshot of a subtask is stored |
| worker | SnapshotDeclined | the snapshot of a subtask could not be stored |
| worker | SubtaskFinished | a subtask has emitted all its output |
| committer | SubtaskCommitted | the output named by a CommitOutput is committed |
| worker | SubtaskFailed | a subtask has failed; the first failure ends the attempt |
| worker | AttemptCancelled | no subtask of the attempt runs any more |
| worker | WatermarkReport | the watermark of the slowest split of a source's subtask |
| worker | LoopTimeHeld | the head of a loop holds back a watermark, idleness or the end |
| worker | LoopWaveReturned | the marker of a wave has come back to a head |
| worker | RegionsLost | a worker was lost, and with it all regions that it took part in |
| worker | RegionsReady | the answer to RestartRegions: the subtasks can be deployed |

`checkpoint/checkpoint_writer` answers WriteManifest and OutputCommitted as a worker answers its own
messages. The committer (`core/job/committer`) is in the coordinator's process; it reports a commit
that fails as the failure of the subtask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from headrace.core.api.splits import Failure, Handle, Progress, Split, SubtaskId
from headrace.core.api.state import Document
from headrace.core.types.elements import MIN_WATERMARK_US, LoopMarker
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a subtask at a barrier: its part of a checkpoint.

    The snapshot of a sink's subtask also has the handle that commits what the writer has written,
    and the state from which the writer of the next attempt is restored.
    """

    splits: Mapping[Split, Progress] = field(default_factory=dict)
    states: Mapping[str, tuple[Document, ...]] = field(default_factory=dict)
    """The state of each step, by step."""
    counts: Document = field(default_factory=dict)
    """The row counters of the subtask."""
    handle: Handle | None = None
    writer: Document | None = None


@dataclass(frozen=True, slots=True)
class RestoredState:
    """The state restored from a checkpoint, which may have been taken with other subtasks."""

    splits: Mapping[str, Mapping[Split, Progress]] = field(default_factory=dict)
    """The progress of each split, by source."""
    states: Mapping[str, tuple[Document, ...]] = field(default_factory=dict)
    """The states of all subtasks, by step; each subtask takes the key groups that it owns."""
    writers: Mapping[str, tuple[Document, ...]] = field(default_factory=dict)
    """The snapshots of the writers, by sink."""
    failed_rows: Mapping[str, int] = field(default_factory=dict)
    """The number of failed rows, by step: dead letters are numbered from there."""


@dataclass(frozen=True, slots=True)
class Deploy:
    """The command to start the subtasks, from a checkpoint if there is one."""

    attempt: int
    subtasks: tuple[SubtaskId, ...]
    restored: RestoredState = field(default_factory=RestoredState)


@dataclass(frozen=True, slots=True)
class AssignSplits:
    """The command to read these splits, each from its position."""

    subtask: SubtaskId
    splits: tuple[tuple[Split, Progress], ...]
    is_last: bool


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """The command to take a checkpoint: sources inject its barrier."""

    number: int


@dataclass(frozen=True, slots=True)
class CommitOutput:
    """The command to commit this prepared output."""

    subtask: SubtaskId
    handle: Handle


@dataclass(frozen=True, slots=True)
class AbortOutput:
    """The command to remove this prepared output."""

    subtask: SubtaskId
    handle: Handle


@dataclass(frozen=True, slots=True)
class SetDriftLimit:
    """The command to hold the splits of a source that are ahead of an event time."""

    source: str
    limit_us: int


@dataclass(frozen=True, slots=True)
class PauseSources:
    """The command to stop reading and wait."""


@dataclass(frozen=True, slots=True)
class StopSources:
    """The command to stop reading and finish what was read."""

    is_drain: bool = False
    """Whether the job may be resumed after the drain: then final snapshots contain state."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The command to end the attempt now."""


@dataclass(frozen=True, slots=True)
class RestartRegions:
    """The command to end what still runs of these subtasks, and to load their checkpoint.

    RegionsReady answers it. A later command replaces it.
    """

    restart: int
    """The number of the restart in the attempt."""
    subtasks: tuple[SubtaskId, ...]
    checkpoint: int | None
    """The checkpoint to restart from; None: the state from which the attempt began."""
    failure: Failure


@dataclass(frozen=True, slots=True)
class WriteManifest:
    """The command to write the manifest of a checkpoint: all snapshots, all output to commit."""

    number: int
    snapshots: Mapping[SubtaskId, Snapshot]
    handles: tuple[tuple[SubtaskId, Handle], ...]
    is_final: bool = False
    """Whether all input was read and all output emitted, so that only commits remain."""
    is_drained: bool = False
    """Whether the job was drained: event time was ended although there was more to read."""
    earlier_snapshots: tuple[Snapshot, ...] = ()
    """The snapshots from which subtasks have restarted: their row counters go on from there."""


@dataclass(frozen=True, slots=True)
class ManifestWritten:
    """The event that the manifest is durable: the checkpoint is complete."""

    number: int


@dataclass(frozen=True, slots=True)
class ManifestFailed:
    """The event that the manifest could not be written: the checkpoint does not exist."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class CommitRecorded:
    """The event that the commits of a checkpoint are recorded: a resumed job skips them."""

    number: int


@dataclass(frozen=True, slots=True)
class CheckpointCompleted:
    """The event that a checkpoint is complete."""

    number: int
    seconds: float
    bytes: int = 0
    """The number of bytes that were new to the store."""


@dataclass(frozen=True, slots=True)
class CheckpointFailed:
    """The event that a checkpoint failed; the job continues without it."""

    number: int
    reason: str
    seconds: float = field(default=0.0, compare=False)
    is_repeated: bool = False
    """Whether it was requested, and the next checkpoint is taken in its place."""


@dataclass(frozen=True, slots=True)
class OutputCommitted:
    """The event that all output named by a checkpoint is committed."""

    number: int


@dataclass(frozen=True, slots=True)
class SnapshotAcknowledged:
    """The event that a subtask's snapshot for a checkpoint is stored."""

    subtask: SubtaskId
    number: int
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class SnapshotDeclined:
    """The event that a subtask's snapshot could not be stored; prepared output stays prepared."""

    subtask: SubtaskId
    number: int
    reason: str
    handle: Handle | None = None


@dataclass(frozen=True, slots=True)
class SubtaskFinished:
    """The event that a subtask has ended: its snapshot is final.

    It answers every checkpoint that the subtask has not answered yet.
    """

    subtask: SubtaskId
    snapshot: Snapshot = field(default_factory=Snapshot)


@dataclass(frozen=True, slots=True)
class SubtaskCommitted:
    """The event that a subtask's output is committed."""

    subtask: SubtaskId


@dataclass(frozen=True, slots=True)
class SubtaskFailed:
    """The event that a subtask has failed."""

    subtask: SubtaskId
    failure: Failure


@dataclass(frozen=True, slots=True)
class AttemptCancelled:
    """The event that no subtask of the attempt runs any more."""


@dataclass(frozen=True, slots=True)
class WatermarkReport:
    """The watermark of the slowest split that a source's subtask reads; None: it reads none."""

    subtask: SubtaskId
    watermark_us: int | None


@dataclass(frozen=True, slots=True)
class HeldTime:
    """The event time of the forward inputs of a loop's head, which it holds, or their end."""

    watermark_us: int = MIN_WATERMARK_US
    is_idle: bool = False
    has_ended: bool = False
    is_round: bool = False
    """Whether the watermark is the number of a round over a table, which has not ended as long as
    an input from outside of the loop has not."""


@dataclass(frozen=True, slots=True)
class LoopTimeHeld:
    """The event that a subtask at the head of a loop holds something back."""

    subtask: SubtaskId
    held: HeldTime


@dataclass(frozen=True, slots=True)
class LoopWaveReturned:
    """The event that the marker of a wave has come back to a subtask at the head of a loop."""

    subtask: SubtaskId
    wave: int
    rows: int
    """The number of rows that came back since the marker was sent."""
    held_before: HeldTime
    """The time that the subtask held when it sent the marker."""
    held: HeldTime
    marker: LoopMarker


@dataclass(frozen=True, slots=True)
class BeginLoopWave:
    """The command to send the marker of a wave into a loop."""

    loop: str
    subtasks: tuple[SubtaskId, ...]
    wave: int


@dataclass(frozen=True, slots=True)
class ReleaseLoopTime:
    """The command to pass on what the head of a loop holds back: the loop is empty."""

    loop: str
    subtasks: tuple[SubtaskId, ...]
    watermark_us: int | None
    """The watermark; None: all inputs are idle."""
    is_end: bool


@dataclass(frozen=True, slots=True)
class RegionsLost:
    """The event that a worker was lost; no event of it follows."""

    worker: int
    subtasks: frozenset[SubtaskId]
    """All subtasks of the regions that the worker took part in."""
    failure: Failure


@dataclass(frozen=True, slots=True)
class RegionsReady:
    """The event that no subtask of a restart runs any more, and no event of one follows."""

    restart: int
    restored: RestoredState
    """The state from which its subtasks restart."""


WorkerCommand: TypeAlias = (
    Deploy
    | AssignSplits
    | TriggerCheckpoint
    | SetDriftLimit
    | PauseSources
    | StopSources
    | Cancel
    | RestartRegions
    | BeginLoopWave
    | ReleaseLoopTime
)


CoordinatorAction: TypeAlias = (
    WorkerCommand
    | CommitOutput
    | AbortOutput
    | WriteManifest
    | OutputCommitted
    | CheckpointCompleted
    | CheckpointFailed
)


CoordinatorEvent: TypeAlias = (
    SnapshotAcknowledged
    | SnapshotDeclined
    | ManifestWritten
    | ManifestFailed
    | CommitRecorded
    | SubtaskFinished
    | SubtaskCommitted
    | SubtaskFailed
    | AttemptCancelled
    | WatermarkReport
    | LoopTimeHeld
    | LoopWaveReturned
    | RegionsLost
    | RegionsReady
)
