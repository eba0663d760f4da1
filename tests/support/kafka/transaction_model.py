"""A broker's transactions as a model: what is visible, what is open, who may still write.

As a real broker does, it knows a transaction by the id, the producer and the epoch, and by nothing
else: InitProducerId aborts what is open under an id and raises the epoch, EndTxn may be repeated
until then, and a producer with an older epoch is fenced.

And as a real broker that stood still may do, a `forgetful` one reports that it has aborted what was
open, but notifies no partition: the rows stay undecided until the next marker of the same producer
arrives, which decides about them too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

State: TypeAlias = Literal["empty", "open", "committed", "aborted"]
Row: TypeAlias = "tuple[int, int]"
"""The split that it is of, and its place there."""


class Lost(Exception):
    """The transaction is not there any more."""


@dataclass(frozen=True, slots=True)
class Held:
    """The broker's state of an id."""

    epoch: int
    state: State = "empty"
    rows: tuple[Row, ...] = ()
    hanging: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True)
class Broker:
    """An immutable broker: each request returns the broker after it."""

    ids: tuple[tuple[str, Held], ...] = ()
    visible: tuple[Row, ...] = ()
    forgetful: bool = False

    def init(self, id: str) -> Broker:
        """InitProducerId."""
        held = dict(self.ids).get(id)
        if held is None:
            return self._with(id, Held(0))
        forgotten = held.rows if self.forgetful and held.state == "open" else ()
        return self._with(id, Held(held.epoch + 1, hanging=(*held.hanging, *forgotten)))

    def mark(self, id: str) -> Broker:
        """AddPartitionsToTxn of all that there are, and EndTxn that aborts."""
        return self._with(id, Held(dict(self.ids)[id].epoch, "aborted"))

    def without(self, ids: Iterable[str]) -> Broker:
        """Return the broker without ids that are not used any more."""
        gone = set(ids)
        return replace(self, ids=tuple(each for each in self.ids if each[0] not in gone))

    def epoch(self, id: str) -> int:
        """The response to InitProducerId."""
        return dict(self.ids)[id].epoch

    def write(self, id: str, epoch: int, row: Row) -> Broker:
        """AddPartitionsToTxn and Produce."""
        held = self._of(id, epoch)
        if held.state not in ("empty", "open"):
            raise Lost(id)
        return self._with(id, Held(epoch, "open", (*held.rows, row), held.hanging))

    def end(self, id: str, epoch: int, *, commit: bool) -> Broker:
        """EndTxn."""
        held = self._of(id, epoch)
        after: State = "committed" if commit else "aborted"
        if held.state == after:
            return self
        if held.state != "open":
            raise Lost(id)
        rows = (*held.hanging, *held.rows)
        there = (*self.visible, *rows) if commit else self.visible
        ended = replace(self, visible=tuple(sorted(there)))
        return ended._with(id, Held(epoch, after))

    @property
    def open(self) -> list[str]:
        """The ids whose transactions keep readers waiting."""
        return [id for id, held in self.ids if held.state == "open"]

    @property
    def hanging(self) -> list[str]:
        """The ids whose transactions it has forgotten to end."""
        return [id for id, held in self.ids if held.hanging]

    def _of(self, id: str, epoch: int) -> Held:
        held = dict(self.ids).get(id)
        if held is None or held.epoch != epoch:
            raise Lost(id)
        return held

    def _with(self, id: str, held: Held) -> Broker:
        return replace(self, ids=tuple(sorted({**dict(self.ids), id: held}.items())))
