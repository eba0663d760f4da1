"""The checkpoints of a running job, one after the other: a state machine. Times are handed in.

| state      | due, asked for | all answered | one cannot, too late | Kept           | NotKept     |
|------------|----------------|--------------|----------------------|----------------|-------------|
| resting    | 1 > taking     | -            | -                    | -              | -           |
| taking     | 5              | 2 > keeping  | 4 > resting          | -              | -           |
| keeping    | 5              | -            | -                    | 3 > committing | 4 > resting |
| committing | 5              | -            | -                    | -              | -           |

Noted leads from committing back to resting.

1: Trigger to the sources. 2: Keep to the store. 3: Commit to the sinks. 4: the job goes on without.
5: what is asked for is to have all that came before, so it is the next one, which begins at once.

No checkpoint begins before all output of the last one that is complete is visible, and that is
noted: so who goes on from one finds at most its own output undecided, and a sink may use again what
it had for that output as soon as it sees the next barrier.

A subtask answers by Acknowledged, or by having Finished without having seen the barrier: then it
never will, and those behind it take its end for the barrier.

What sinks have prepared is carried until a manifest that names it is there, whatever becomes of the
checkpoint that it was prepared for: so a checkpoint that fails takes nothing with it. What a sink
prepares at its end, with its answer to a checkpoint given already, is for the next one: its rows
are behind the barrier, and whoever went on from that checkpoint would read them again.
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

State: TypeAlias = Literal["resting", "taking", "keeping", "committing"]
Prepared: TypeAlias = "tuple[SubtaskId, Handle]"


@dataclass(frozen=True, slots=True)
class Rhythm:
    """When checkpoints are taken, and how many may fail in a row."""

    every_s: float | None = None
    min_pause_s: float = 0.0
    timeout_s: float = 600.0
    tolerable: int = 3


@dataclass(slots=True)
class Checkpoints:
    """`number` is that of the last checkpoint that was begun."""

    subtasks: tuple[SubtaskId, ...]
    rhythm: Rhythm = field(default_factory=Rhythm)
    number: int = 0
    state: State = "resting"
    failed: int = 0
    """How many have failed since one was kept."""
    why: str = ""
    """Why the last one failed."""
    drained: bool = False
    """Whether the end is that of a job that is to go on from there."""
    kept: int | None = None
    """The last one that is complete."""
    _came: dict[SubtaskId, Snapshot] = field(default_factory=dict)
    _finished: dict[SubtaskId, Snapshot] = field(default_factory=dict)
    _prepared: list[Prepared] = field(default_factory=list)
    _behind: list[Prepared] = field(default_factory=list)
    """What was prepared behind the barrier of the checkpoint that is being taken."""
    _named: int = 0
    """How many of them the manifest names that is being written."""
    _since: float = 0.0
    _due: float | None = None
    _again: bool = False
    """Whether one was asked for while another was being taken."""
    _asked: bool = False
    """Whether somebody asked for the one that is being taken: if it fails, nothing is due."""

    def start(self, now: float) -> None:
        """The job begins: the first checkpoint is due as long after that as any other."""
        self._since = now
        if self.rhythm.every_s is not None:
            self._due = now + self.rhythm.every_s

    def due(self) -> float | None:
        """When there is something to do."""
        match self.state:
            case "resting":
                return self._due
            case "taking":
                return self._since + self.rhythm.timeout_s
        return None

    def tick(self, now: float) -> list[ToAnybody]:
        """Begin a checkpoint that is due, or give up one that takes too long."""
        due = self.due()
        if due is None or now < due:
            return []
        if self.state == "taking":
            missing = len(self.subtasks) - len(self._came)
            late = "1 subtask has" if missing == 1 else f"{missing} subtasks have"
            why = f"{late} not answered within {self.rhythm.timeout_s:g} s"
            return self._give_up(why, now)
        return self.begin(now)

    def begin(self, now: float) -> list[ToAnybody]:
        """Take a checkpoint now; none is being taken."""
        assert self.state == "resting", self.state
        self.number += 1
        self.state, self._since = "taking", now
        self._asked, self._again = self._again, False
        self._came = dict(self._finished)
        return self._complete() or [Trigger(self.number)]

    def ask(self, now: float) -> tuple[int, list[ToAnybody]]:
        """Take one of all that has come until now: which, and what is to be said."""
        self._again = True
        if self.state == "resting":
            messages = self.begin(now)
            return self.number, messages
        return self.number + 1, []

    def drain(self, now: float) -> list[ToAnybody]:
        """Take none before the end: behind the end of time, others would be of half a job."""
        self.drained, self._asked, self._again = True, True, False
        return self._give_up("the job is drained", now) if self.state == "taking" else []

    def acknowledged(self, message: Acknowledged) -> list[ToAnybody]:
        """A subtask's part is in the store."""
        self._prepare(message.subtask, message.snapshot.handle, self._prepared)
        if self.state != "taking" or message.number != self.number:
            return []
        self._came[message.subtask] = _bare(message.snapshot)
        return self._complete()

    def abandoned(self, message: Abandoned, now: float) -> list[ToAnybody]:
        """A subtask's part is not there."""
        self._prepare(message.subtask, message.handle, self._prepared)
        if self.state != "taking" or message.number != self.number:
            return []
        return self._give_up(message.why, now)

    def finished(self, subtask: SubtaskId, snapshot: Snapshot) -> list[ToAnybody]:
        """A subtask has ended, and is from now on as it is."""
        if self.state == "taking" and subtask in self._came:
            self._prepare(subtask, snapshot.handle, self._behind)
        else:
            self._prepare(subtask, snapshot.handle, self._prepared)
        self._finished[subtask] = _bare(snapshot)
        if self.state != "taking":
            return []
        self._came.setdefault(subtask, self._finished[subtask])
        return self._complete()

    def written(self, number: int, now: float) -> list[ToAnybody]:
        """The manifest is there: what it names is committed."""
        assert (self.state, number) == ("keeping", self.number)
        named, self._prepared = self._prepared[: self._named], self._prepared[self._named :]
        self._named, self.failed, self.kept = 0, 0, number
        taken = CheckpointTaken(number, now - self._since)
        self.state = "committing"
        return [taken, *(Commit(subtask, handle) for subtask, handle in named)]

    def noted(self, number: int, now: float) -> list[ToAnybody]:
        """All output that it names is visible, and nobody will commit it again."""
        assert (self.state, number) == ("committing", self.number)
        self._rest(now)
        return []

    def not_written(self, number: int, why: str, now: float) -> list[ToAnybody]:
        """The manifest is not there."""
        assert (self.state, number) == ("keeping", self.number)
        self._named = 0
        return self._give_up(why, now)

    @property
    def too_many(self) -> bool:
        """Whether more have failed in a row than the job bears."""
        return self.failed > self.rhythm.tolerable

    @property
    def unnamed(self) -> tuple[Prepared, ...]:
        """What was prepared and is in no manifest, nor in one that may be there."""
        return (*self._prepared[self._named :], *self._behind)

    def _prepare(self, subtask: SubtaskId, handle: Handle | None, carried: list[Prepared]) -> None:
        if handle is not None:
            carried.append((subtask, handle))

    def _complete(self) -> list[ToAnybody]:
        if len(self._came) < len(self.subtasks):
            return []
        self.state, self._named = "keeping", len(self._prepared)
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
        self.state = "resting"
        self._prepared += self._behind
        self._behind.clear()
        every_s, self._due = self.rhythm.every_s, None
        if every_s is not None:
            self._due = max(self._since + every_s, now + self.rhythm.min_pause_s)
        if self._again:
            self._due = now


def _bare(snapshot: Snapshot) -> Snapshot:
    """Without its handle, which goes its own way."""
    return replace(snapshot, handle=None)
