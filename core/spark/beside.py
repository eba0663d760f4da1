"""A loop in a thread of its own, which goes on while Spark makes the next rows.

On a loop that only runs while somebody waits for it, an answer of a broker would lie there until
rows come, and look as if it had not come.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Beside:
    """The loop, asked from another thread."""

    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of the work, for which this thread waits."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()


@contextmanager
def beside() -> Iterator[Beside]:
    """A loop until the end of this; what is still at work then is cancelled."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=loop.run_forever, name="headrace-loop", daemon=True)
        thread.start()
        try:
            yield Beside(loop)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
