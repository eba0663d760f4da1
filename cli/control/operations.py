"""What clients have asked a job to do: a pure state machine, which decides what may begin and when.

    asked while        nothing       a savepoint     a rescale     a stop        the job is over
                       is going on   is going on     is going on   is going on
    savepoint          begins        waits (1)       waits         refused       refused
    rescale            begins        waits           refused       refused       refused
    stop               begins        begins (2)      begins (2)    joins it (3)  refused

(1) In a queue. What waits for the same place as one that waits already is the same operation: it
    will hold all that had come when the second was asked for. One that is being taken may not.
(2) A stop waits for nobody. What is being exported is finished first, since its checkpoint is held.
    Savepoints that wait are made of the job's last checkpoint, behind its end, as that of the stop
    itself is; unless it is drained, for then its state is another. A rescale that waits fails.
(3) The first stop remains the only one; what the second wants as well is done as long as it can be:
    a savepoint until the job has ended. For draining it is too late if the first did not want it.
    Another place for the savepoint than the one that the first named is refused.

A stop that is asked for by a signal is a stop of nobody: the first one by a client joins it.

    waiting --next--> running --done--> done
       | <----again---' '-----fail---> failed
       '-------------------fail------> failed

A savepoint for which no checkpoint could be taken any more, because the job is coming to its end,
waits again, for the last one. Nothing leaves `done` and `failed`. A client that goes away changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from headrace.cli.control.http import Bad

Kind: TypeAlias = Literal["savepoint", "stop", "rescale"]
State: TypeAlias = Literal["waiting", "running", "done", "failed"]

REMEMBERED = 100
"""So many operations that are over are remembered."""

QUEUE = 20
"""So many may wait."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an operation failed: `refused`, because of how things stand, or `failed`."""

    code: str
    message: str
    hint: str = ""


@dataclass(slots=True)
class Operation:
    """One thing that was asked for."""

    id: str
    kind: Kind
    asked_at: str
    to: str | None = None
    """Where a savepoint goes; None: where savepoints of the job are."""
    saves: bool = False
    """Whether a savepoint is made; only of a stop is that a question."""
    drain: bool = False
    parallelism: Mapping[str, int] = field(default_factory=dict)
    """Of a rescale: by part, of those that change."""
    state: State = "waiting"
    words: str = ""
    """How far it has come."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    result: Mapping[str, object] = field(default_factory=dict)
    error: Trouble | None = None
    told: bool = False
    """Whether somebody has heard of its end."""

    @property
    def over(self) -> bool:
        """Whether it has come to its end."""
        return self.state in ("done", "failed")


@dataclass(slots=True)
class Operations:
    """All of one run, by id, in the order in which they were asked for."""

    known: dict[str, Operation] = field(default_factory=dict)
    ended: bool = False
    """Whether the job is over."""
    _last: int = 0

    def savepoint(self, status: str, time: str, to: str | None = None) -> Operation:
        """Ask for a savepoint. Raises Bad."""
        self._check(status, "headrace stop JOB --savepoint joins the stop that is going on")
        for other in self._waiting("savepoint"):
            if other.to == to:
                return other
        self._check_taken(to)
        if len(list(self._waiting())) >= QUEUE:
            raise Bad(409, "busy", f"{QUEUE} operations are waiting already", "ask again later")
        return self._add(Operation("", "savepoint", time, to, saves=True))

    def rescale(self, status: str, time: str, parallelism: Mapping[str, int]) -> Operation:
        """Ask for other parallelism. Raises Bad."""
        self._check(status, "the next run may have another parallelism")
        for other in self._open("rescale"):
            hint = f"it is operation {other.id}: ask again when it is over"
            raise Bad(409, "rescaling", "the job is being rescaled", hint)
        return self._add(Operation("", "rescale", time, parallelism=parallelism))

    def stop(
        self, status: str, time: str, *, saves: bool, to: str | None = None, drain: bool
    ) -> Operation:
        """Ask for the end. Raises Bad."""
        first = next(self._open("stop"), None)
        if first is None and (self.ended or status == "over"):
            raise over()
        if saves and self.ended and first and not first.saves:
            raise Bad(409, "too_late", "the job has stopped without a savepoint: it is too late")
        if drain and (not first.drain if first else status == "stopping"):
            raise Bad(409, "too_late", "the job is stopping without being drained: it is too late")
        if saves and first and first.saves and to not in (None, first.to):
            there = first.to or "the job's own savepoints"
            message = f"the job is stopping with a savepoint in {there} already"
            raise Bad(409, "stopping", message, "ask for no other place")
        if saves and not (first and first.to == to):
            self._check_taken(to)
        if first is None:
            first = self._add(Operation("", "stop", time, drain=drain, state="running"))
        if saves and not first.saves:
            first.saves, first.to = True, to
        return first

    def next(self, status: str) -> Operation | None:
        """What begins now, if something does."""
        running = any(self._running("savepoint")) or any(self._running("rescale"))
        if running or self._ending(status):
            return None
        for operation in self._waiting():
            operation.state, operation.words = "running", ""
            return operation
        return None

    def again(self, operation: Operation) -> None:
        """No checkpoint was taken for this savepoint, because the job is coming to its end."""
        operation.state, operation.words = "waiting", "waiting for the job's last checkpoint"

    def last(self, *, drained: bool) -> list[Operation]:
        """The job has ended: what is made of its last checkpoint, the stop behind the others."""
        self.ended = True
        saving = [] if drained else list(self._waiting("savepoint"))
        return [*saving, *(stop for stop in self._open("stop") if stop.saves)]

    def say(self, operation: Operation, words: str, **numbers: float) -> None:
        """How far one has come."""
        operation.words, operation.numbers = words, numbers

    def done(self, operation: Operation, **result: object) -> None:
        """One has come to its end."""
        self._end(operation, "done", result, None)

    def fail(self, operation: Operation, trouble: Trouble) -> None:
        """One could not be done."""
        self._end(operation, "failed", {}, trouble)

    def open(self) -> list[Operation]:
        """Those that are not over."""
        return list(self._open())

    def _end(
        self,
        operation: Operation,
        state: State,
        result: Mapping[str, object],
        error: Trouble | None,
    ) -> None:
        assert not operation.over, operation
        operation.state, operation.result, operation.error = state, result, error
        operation.words, operation.numbers = "", {}
        over = [each.id for each in self.known.values() if each.over]
        for id in over[:-REMEMBERED]:
            del self.known[id]

    def _add(self, operation: Operation) -> Operation:
        self._last += 1
        operation.id = str(self._last)
        self.known[operation.id] = operation
        return operation

    def _check(self, status: str, hint: str) -> None:
        """Whether the job goes on."""
        stops = any(self._open("stop"))
        if not stops and (self.ended or status == "over"):
            raise over()
        if stops or self._ending(status):
            raise Bad(409, "stopping", "the job is stopping", hint)

    def _ending(self, status: str) -> bool:
        """Whether the job takes no more checkpoints but its last."""
        ending = status in ("stopping", "draining", "over")
        return ending or self.ended or any(self._open("stop"))

    def _check_taken(self, to: str | None) -> None:
        """Whether no other savepoint goes there."""
        for other in self._open():
            if to is not None and other.saves and other.to == to:
                message = f"operation {other.id} is making a savepoint in {to}"
                raise Bad(409, "taken", message, "name another folder")

    def _open(self, kind: Kind | None = None) -> Iterator[Operation]:
        return (each for each in self._of(kind) if not each.over)

    def _running(self, kind: Kind) -> Iterator[Operation]:
        return (each for each in self._of(kind) if each.state == "running")

    def _waiting(self, kind: Kind | None = None) -> Iterator[Operation]:
        return (each for each in self._of(kind) if each.state == "waiting")

    def _of(self, kind: Kind | None) -> Iterator[Operation]:
        return (each for each in self.known.values() if kind in (None, each.kind))


def over() -> Bad:
    """Nothing can be asked any more."""
    return Bad(409, "over", "the job has ended", "its process is about to end as well")
