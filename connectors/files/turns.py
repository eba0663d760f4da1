"""Files read one after the other where each needs a word first: under a limit, or while they come.

Without either, `Threaded` reads them, and is ahead even from one file to the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from headrace.connectors.threaded import Threaded
from headrace.core.contracts import Chunk, Surroundings
from headrace.core.messages import Position, Split

if TYPE_CHECKING:
    from headrace.connectors.files.rows import AnyReader


class InTurn:
    """`Reading` that waits for its turn with each file; `more` waits for another file."""

    def __init__(
        self,
        reader: AnyReader,
        assigned: Sequence[tuple[Split, Position]],
        surroundings: Surroundings,
        more: Callable[[], Awaitable[Split | None]] | None = None,
    ) -> None:
        self._reader = reader
        self._surroundings = surroundings
        self._more = more
        self._has_turn = False
        self._waiting: deque[tuple[str, Threaded]] = deque()
        for split, position in assigned:
            self._add(split, position)

    def _add(self, split: Split, position: Position) -> None:
        reading = Threaded(self._reader, [(split, position)], self._surroundings)
        self._waiting.append((split.name, reading))

    async def next(self) -> Chunk | None:
        """The next chunk of the first file that is not read yet."""
        quota = self._reader.quota
        while self._waiting or self._more:
            if not self._waiting and self._more:
                split = await self._more()
                if split is None:
                    break
                self._add(split, None)
            name, reading = self._waiting[0]
            # A file that was begun is read to its end: a chunk of it may be waiting already.
            if quota and not self._has_turn and not await quota.turn(name):
                break
            self._has_turn = True
            chunk = await reading.next()
            if chunk is not None:
                return chunk
            self._waiting.popleft()
            self._has_turn = False
            if quota:
                await quota.done(name)
        return None

    async def close(self) -> None:
        """Close what is open."""
        for _, reading in self._waiting:
            await reading.close()
