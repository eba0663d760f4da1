"""Where reading a partition goes on, as it stands in checkpoints; and what its split is called.

A position is the next offset, and beside it what a later run needs to know: the last record that
was read, by which a topic that was made anew under the old name is told from the one that was read,
and where reading is to stop, so that a job that is started again ends at the same place.

>>> str(Place(17, Seen(16, 1732212345678), 200))
'offset=17 last=16@1732212345678 stop=200'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from headrace.core.messages import Position


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


def partition_of(split: str) -> Partition:
    """The partition that a split is called after.

    >>> partition_of("a-b-12")
    Partition(topic='a-b', number=12)
    """
    topic, _, number = split.rpartition("-")
    return Partition(topic, int(number))


class Seen(NamedTuple):
    """A record that was read: where, and its timestamp in milliseconds."""

    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Place:
    """`offset` is the next to read; nothing is read from `stop` on."""

    offset: int
    last: Seen | None = None
    stop: int | None = None

    def __str__(self) -> str:
        words = [f"offset={self.offset}"]
        if self.last is not None:
            words.append(f"last={self.last.offset}@{self.last.timestamp}")
        if self.stop is not None:
            words.append(f"stop={self.stop}")
        return " ".join(words)

    @property
    def position(self) -> Position:
        """As it is stored: at its simplest, the offset alone."""
        return self.offset if self.last is None and self.stop is None else str(self)


def place_at(position: Position) -> Place:
    """What was stored.

    >>> place_at(17), place_at("offset=17 last=16@5 stop=200")
    (Place(offset=17, last=None, stop=None), Place(offset=17, last=Seen(offset=16, timestamp=5), \
stop=200))
    """
    if not isinstance(position, str):
        return Place(position or 0)
    words = dict(word.split("=", 1) for word in position.split())
    last = words.get("last")
    return Place(
        int(words["offset"]),
        None if last is None else Seen(*map(int, last.split("@"))),
        int(words["stop"]) if "stop" in words else None,
    )
