"""What the coordinator and a worker say to each other: frozen values, also within one process.

| who | says | when |
|---|---|---|
| coordinator | Deploy | once an attempt: what runs, from which state |
| coordinator | Assign | splits for a source's subtask; `last`: no more come |
| coordinator | Trigger | a checkpoint begins: sources send its barrier |
| coordinator | Commit | prepared output is to be made visible |
| coordinator | Abort | prepared output is not to be seen |
| coordinator | Hold | splits of a source are not to be read past this time |
| coordinator | Stop | sources read no more; what was read is finished |
| coordinator | Cancel | everything ends now; what is open is aborted |
| worker | Acknowledged | a subtask's part of a checkpoint is durable |
| worker | Abandoned | a subtask could not take its part |
| worker | Finished | a subtask has put out all it ever will |
| worker | Committed | the output of a Commit is visible |
| worker | Failed | a subtask cannot go on; the first ends the attempt |
| worker | Cancelled | nothing of the attempt runs any more |
| worker | WatermarkReport | how far a source's subtask has come in event time |

Trigger, Acknowledged and Abandoned are sent once checkpoints exist; they stand here so that the
protocol is one table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

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
    discovered; it is given when a split is dealt, and stays.
    """

    source: str
    name: str
    number: int = field(default=0, compare=False)


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


@dataclass(frozen=True, slots=True)
class Deploy:
    """Start these subtasks."""

    attempt: int
    subtasks: tuple[SubtaskId, ...]


@dataclass(frozen=True, slots=True)
class Assign:
    """Read these splits, each from its position."""

    subtask: SubtaskId
    splits: tuple[tuple[Split, Position], ...]
    last: bool


@dataclass(frozen=True, slots=True)
class Trigger:
    """Take your part in a checkpoint."""

    checkpoint: int


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
class Stop:
    """Read no more; finish what was read."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """End now."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """This subtask's part of the checkpoint is durable."""

    subtask: SubtaskId
    checkpoint: int
    positions: Mapping[Split, Position] = field(default_factory=dict)
    handle: Handle | None = None


@dataclass(frozen=True, slots=True)
class Abandoned:
    """This subtask's part of the checkpoint could not be taken."""

    subtask: SubtaskId
    checkpoint: int
    why: str


@dataclass(frozen=True, slots=True)
class Finished:
    """This subtask has ended; a sink's prepared output is in the handle."""

    subtask: SubtaskId
    handle: Handle | None = None


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


ToWorker: TypeAlias = Deploy | Assign | Trigger | Commit | Abort | Hold | Stop | Cancel
ToCoordinator: TypeAlias = (
    Acknowledged | Abandoned | Finished | Committed | Failed | Cancelled | WatermarkReport
)
