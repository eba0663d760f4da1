"""Event loop in a thread of its own, which keeps running while Spark computes the next rows.

On a loop that runs only while a caller waits for it, a broker's answer would stay unread until the
next rows arrive, and the request would seem to time out.
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
class BackgroundLoop:
    """An event loop that other threads submit work to."""

    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the loop, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()


@contextmanager
def run_background_loop() -> Iterator[BackgroundLoop]:
    """Run a loop until the `with` ends; unfinished work is cancelled then."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=loop.run_forever, name="headrace-loop", daemon=True)
        thread.start()
        try:
            yield BackgroundLoop(loop)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
