"""What the coordinator and a worker say to each other: frozen values, also within one process.

| who | says | when |
|---|---|---|
| coordinator | Deploy | once an attempt: what runs, from which state |
| coordinator | Assign | splits for a source's subtask; `last`: no more come |
| coordinator | Trigger | a checkpoint begins: sources send its barrier |
| coordinator | Keep | all parts of a checkpoint are there: write its manifest |
| coordinator | CheckpointTaken, CheckpointFailed | for whoever watches the job |
| coordinator | Commit | prepared output is to be made visible |
| coordinator | AllVisible | the output of a checkpoint need not be committed again: to be noted |
| coordinator | Abort | prepared output is not to be seen |
| coordinator | Hold | splits of a source are not to be read past this time |
| coordinator | Halt | sources read no more; nothing ends: a checkpoint is to come |
| coordinator | Stop | sources read no more; what was read is finished |
| coordinator | Cancel | everything ends now; what is open is aborted |
| store | Kept | the manifest is written: the checkpoint is complete |
| store | NotKept | the manifest is not there, and will not be |
| store | Noted | that the output of a checkpoint is visible will not be forgotten |
| worker | Acknowledged | a subtask's part of a checkpoint is in the store |
| worker | Abandoned | a subtask could not put its part there |
| worker | Finished | a subtask has put out all it ever will |
| worker | Committed | the output of a Commit is visible |
| worker | Failed | a subtask cannot go on; the first ends the attempt |
| worker | Cancelled | nothing of the attempt runs any more |
| worker | WatermarkReport | how far a source's subtask has come in event time |

Keep and AllVisible go to the snapshot store, which answers as a worker does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from headrace.core.state import Document

Position: TypeAlias = "int | str | None"
"""Where in a split reading goes on: plain data, because it is stored."""

Handle: TypeAlias = "Mapping[str, object]"
"""What a sink needs to commit or abort prepared output: plain data, because it is stored."""


@dataclass(frozen=True, slots=True, order=True)
class SubtaskId:
    """A subtask: the task's number in the plan, and which of its subtasks."""

    task: int
    index: int


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a source that is read in order by one reader.

    `number` is its place among the splits of its source, in the order in which they were
    discovered; it is given when a split is dealt, and stays. `start` is where reading begins of a
    split that was not known before.
    """

    source: str
    name: str
    number: int = field(default=0, compare=False)
    start: Position = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a split has been read: what reading it further goes on from."""

    position: Position = None
    at_us: int | None = None
    """Its watermark, once its rows have told of the time."""
    rows: int = 0
    """How many rows it has given, where rows are placed by that."""
    bad: int = 0
    """How many bad records."""
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A subtask at a barrier: its part of a checkpoint. Of a sink's writer it has what it needs to
    commit what it has written, and what the next attempt's writer begins with."""

    splits: Mapping[Split, Progress] = field(default_factory=dict)
    states: Mapping[str, tuple[Document, ...]] = field(default_factory=dict)
    """The states of its steps."""
    counts: Document = field(default_factory=dict)
    """What went through it."""
    handle: Handle | None = None
    writer: Document | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a subtask cannot go on: what a user is told, once."""

    message: str
    step: str
    split: str | None = None
    position: Position = None
    hint: str = ""
    defect: str = ""
    """The traceback, when it is a defect of ours rather than of the data or the user's code."""
    may_pass: bool = False
    """Whether it is trouble of the outside world, at no place in the data, and may pass."""
    final: bool = False
    """Whether another attempt would end in the same way."""
    raised: str = ""
    """Where, in a user's code or ours or of what it returned, whichever row it was on."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What all begins with behind a checkpoint; the subtasks then may have been others."""

    splits: Mapping[str, Mapping[Split, Progress]] = field(default_factory=dict)
    """By source, how far each has been read."""
    states: Mapping[str, tuple[Document, ...]] = field(default_factory=dict)
    """By step, those of all its subtasks: each of now takes the key groups that it owns."""
    writers: Mapping[str, tuple[Document, ...]] = field(default_factory=dict)
    """By sink, what its writers kept."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """By step, from where the rows on which a user's function fails are numbered."""


@dataclass(frozen=True, slots=True)
class Deploy:
    """Start these subtasks, behind a checkpoint if there was one."""

    attempt: int
    subtasks: tuple[SubtaskId, ...]
    restored: Restored = field(default_factory=Restored)


@dataclass(frozen=True, slots=True)
class Assign:
    """Read these splits, each from where it was left."""

    subtask: SubtaskId
    splits: tuple[tuple[Split, Progress], ...]
    last: bool


@dataclass(frozen=True, slots=True)
class Trigger:
    """Take your part in a checkpoint."""

    number: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Make this prepared output visible."""

    subtask: SubtaskId
    handle: Handle


@dataclass(frozen=True, slots=True)
class Abort:
    """Remove this prepared output."""

    subtask: SubtaskId
    handle: Handle


@dataclass(frozen=True, slots=True)
class Hold:
    """Let the splits of this source that have come beyond this time wait."""

    source: str
    until_us: int


@dataclass(frozen=True, slots=True)
class Halt:
    """Read no more, and wait."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Read no more; finish what was read."""

    drains: bool = False
    """Whether the job is to go on from there: states are kept at the end as well."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """End now."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Make this a checkpoint: the parts of all subtasks, and all output that is to be committed."""

    number: int
    snapshots: Mapping[SubtaskId, Snapshot]
    handles: tuple[tuple[SubtaskId, Handle], ...]
    ended: bool = False
    """Whether all has been read and put out, so that only the output is left to commit."""
    drained: bool = False
    """Whether time was said to be over where there was more to read."""


@dataclass(frozen=True, slots=True)
class Kept:
    """This checkpoint is complete."""

    number: int


@dataclass(frozen=True, slots=True)
class NotKept:
    """This checkpoint is not there."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Noted:
    """Whoever goes on from this checkpoint knows that its output is visible."""

    number: int


@dataclass(frozen=True, slots=True)
class CheckpointTaken:
    """A checkpoint is complete."""

    number: int
    seconds: float
    bytes: int = 0
    """How much was new to the store."""


@dataclass(frozen=True, slots=True)
class CheckpointFailed:
    """A checkpoint is not there; the job goes on without it."""

    number: int
    why: str
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class AllVisible:
    """All output that this checkpoint names is visible."""

    number: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """This subtask's part of the checkpoint is in the store."""

    subtask: SubtaskId
    number: int
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Abandoned:
    """This subtask's part of the checkpoint is not in the store; what it prepared is prepared."""

    subtask: SubtaskId
    number: int
    why: str
    handle: Handle | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """This subtask has ended; it answers every checkpoint that it has not had a part in."""

    subtask: SubtaskId
    snapshot: Snapshot = field(default_factory=Snapshot)


@dataclass(frozen=True, slots=True)
class Committed:
    """This subtask's output is visible."""

    subtask: SubtaskId


@dataclass(frozen=True, slots=True)
class Failed:
    """This subtask cannot go on."""

    subtask: SubtaskId
    failure: Failure


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Nothing of the attempt runs any more."""


@dataclass(frozen=True, slots=True)
class WatermarkReport:
    """How far the slowest split of a source's subtask has come; None: none is being read."""

    subtask: SubtaskId
    at_us: int | None


ToWorker: TypeAlias = Deploy | Assign | Trigger | Commit | Abort | Hold | Halt | Stop | Cancel
ToAnybody: TypeAlias = ToWorker | Keep | AllVisible | CheckpointTaken | CheckpointFailed
ToCoordinator: TypeAlias = (
    Acknowledged
    | Abandoned
    | Kept
    | NotKept
    | Noted
    | Finished
    | Committed
    | Failed
    | Cancelled
    | WatermarkReport
)
