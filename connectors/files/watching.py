"""`watch:`: files that come while the pipeline runs, each read once, when it is complete.

A file is ready when it looks as it did a look ago, or has not been changed for that long, and holds
anything at all. Whoever writes slower than that had better write under a name that starts with a
dot, and rename.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.connectors.files.finding import base, find, nothing
from headrace.connectors.files.matching import is_magic
from headrace.connectors.files.turns import InTurn
from headrace.core.contracts import Reading, Surroundings
from headrace.core.messages import Position, Split

if TYPE_CHECKING:
    from headrace.connectors.files.rows import AnyReader


@dataclass(slots=True)
class Watched:
    """`Source` over the files of a folder that others go on filling.

    The subtasks take the files that come after the start from one queue, and whoever finds it empty
    waits for the time of the next look.
    """

    name: str
    path: str
    reader: AnyReader
    surroundings: Surroundings
    every_s: float
    _ready: set[str] = field(default_factory=set)
    _looks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _waiting: deque[Split] = field(default_factory=deque)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def discover(self) -> Sequence[Split]:
        """A split for each file that is ready now."""
        folder = self.reader.folder
        below, is_pattern = os.path.join(folder, base(self.path)), is_magic(self.path)
        if not (os.path.isdir(below) if is_pattern else os.path.exists(below)):
            raise nothing(folder, self.path)
        return self._look()

    def reading(self, assigned: Sequence[tuple[Split, Position]]) -> Reading:
        """These files, then some of those that come."""
        return InTurn(self.reader, assigned, self.surroundings, self._next)

    async def _next(self) -> Split | None:
        """The next file that has come; none when no row is wanted any more."""
        quota = self.reader.quota
        async with self._looking:
            while not self._waiting:
                if quota and quota.left <= 0:
                    return None
                await asyncio.sleep(self.every_s)
                await self.surroundings.bench.blocking(lambda: self._waiting.extend(self._look()))
            return self._waiting.popleft()

    def _look(self) -> list[Split]:
        """The files that are ready and were not before."""
        looks, self._looks = self._looks, {}
        found = find(self.reader.folder, self.path)
        known = self._ready
        new = [n for n in found if n not in known and self._is_ready(n, looks.get(n))]
        known.update(new)
        if self.reader.quota:
            self.reader.quota.expect(new)
        return [Split(self.name, name) for name in new]

    def _is_ready(self, name: str, last: tuple[int, ...] | None) -> bool:
        try:
            found = os.stat(os.path.join(self.reader.folder, name))
        except FileNotFoundError:
            return False
        look = (found.st_ino, found.st_size, found.st_mtime_ns)
        self._looks[name] = look
        rested = time.time() - found.st_mtime >= self.every_s
        return found.st_size > 0 and (look == last or rested)
