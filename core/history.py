"""The history of a run: its last checkpoints, their durations and their sizes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.core.messages import CheckpointFailed, CheckpointTaken
from headrace.core.snapshots import blobs_in

MOST = 20


@dataclass(frozen=True, slots=True)
class Pauses:
    """The longest times for which a checkpoint held up a subtask."""

    aligned_s: float
    """The time in which some of its inputs waited for the barriers of others."""
    stood_still_s: float
    """The time in which it took its snapshot and prepared its output, and read nothing."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """One checkpoint of the history. A failed one has no sizes, and a reason."""

    number: int
    triggered_us: int
    """The wall-clock time at which it was begun."""
    seconds: float
    bytes_new: int | None = None
    """The number of bytes that it added to the store."""
    bytes_all: int | None = None
    """The number of bytes that it consists of, including those written by earlier checkpoints."""
    pauses: Pauses | None = None
    why: str = ""

    @property
    def failed(self) -> bool:
        """Whether the checkpoint failed."""
        return bool(self.why)


@dataclass(slots=True)
class History:
    """The latest checkpoints, newest first, and totals since the run began."""

    most: int = MOST
    restarts: int = 0
    """The number of restarts after failures."""
    completed: int = 0
    failed: int = 0
    seconds: float = 0.0
    """The total duration of the complete checkpoints."""
    bytes_new: int = 0
    """The total number of bytes that they added to the store."""
    newest: Remembered | None = None
    """The newest complete checkpoint."""
    _last: deque[Remembered] = field(default_factory=deque)
    _sizes: dict[int, int] = field(default_factory=dict)
    """The sizes of checkpoints whose outcome has not been reported yet."""

    @property
    def last(self) -> tuple[Remembered, ...]:
        """The latest checkpoints, newest first."""
        return tuple(self._last)

    def written(self, number: int, document: Mapping[str, object]) -> None:
        """Record the size of a checkpoint from its manifest, before its outcome.

        Safe in any thread.
        """
        self._sizes[number] = sum(blob.bytes for blob in {*blobs_in(document)})

    def told(
        self,
        news: CheckpointTaken | CheckpointFailed,
        now_us: int,
        pauses: Pauses | None = None,
    ) -> None:
        """Record the outcome of a checkpoint at this time."""
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
