"""What a run has been through: its last checkpoints, how long each took, how large it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.core.messages import CheckpointFailed, CheckpointTaken
from headrace.core.snapshots import blobs_in

MOST = 20


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long the subtask that was held up most was held up by a checkpoint."""

    aligned_s: float
    """While some of its inputs waited for the barriers of others, which it went on to read."""
    stood_still_s: float
    """While it froze its states and prepared its output, and read nothing."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """One checkpoint. Of one that failed nobody counts bytes, and `why` says what went wrong."""

    number: int
    triggered_us: int
    """When it was begun, by the wall clock."""
    seconds: float
    bytes_new: int | None = None
    """What it wrote that was not there before."""
    bytes_all: int | None = None
    """What it is made of, with all that earlier ones wrote."""
    pauses: Pauses | None = None
    why: str = ""

    @property
    def failed(self) -> bool:
        """Whether it is not there."""
        return bool(self.why)


@dataclass(slots=True)
class History:
    """The newest ones first, and how many there have been since the run began."""

    most: int = MOST
    restarts: int = 0
    """How often the job has failed and begun again."""
    completed: int = 0
    failed: int = 0
    seconds: float = 0.0
    """How long those that are complete have taken together."""
    bytes_new: int = 0
    """What they wrote."""
    newest: Remembered | None = None
    """The newest that is complete."""
    _last: deque[Remembered] = field(default_factory=deque)
    _sizes: dict[int, int] = field(default_factory=dict)
    """What checkpoints are made of that nobody has told of yet."""

    @property
    def last(self) -> tuple[Remembered, ...]:
        """The newest first."""
        return tuple(self._last)

    def written(self, number: int, document: Mapping[str, object]) -> None:
        """This is the manifest of a checkpoint, of which will be told. In any thread."""
        self._sizes[number] = sum(blob.bytes for blob in {*blobs_in(document)})

    def told(
        self,
        news: CheckpointTaken | CheckpointFailed,
        now_us: int,
        pauses: Pauses | None = None,
    ) -> None:
        """One is complete, or never will be, by now."""
        triggered_us = now_us - int(news.seconds * 1e6)
        size = self._sizes.pop(news.number, None)
        if isinstance(news, CheckpointTaken):
            one = Remembered(news.number, triggered_us, news.seconds, news.bytes, size, pauses)
            self.newest = one
            self.completed += 1
            self.seconds += news.seconds
            self.bytes_new += news.bytes
        else:
            one = Remembered(news.number, triggered_us, news.seconds, why=news.why)
            self.failed += 1
        self._last.appendleft(one)
        while len(self._last) > self.most:
            self._last.pop()
