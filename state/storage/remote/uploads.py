"""Uploads that go on while their callers do something else, of which there are never many.

A round trip to a bucket takes tens of milliseconds, so many small blobs go side by side. Whoever
brings one more than that waits for a place, so that what is on its way fits into memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

AT_ONCE = 8


class Uploads:
    """A few threads, and as many places."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="headrace-upload")
        self._places = threading.BoundedSemaphore(AT_ONCE)

    def begin(self, work: Callable[[], None]) -> Future[None]:
        """Begin it, when there is a place."""
        self._places.acquire()
        try:
            begun = self._threads.submit(work)
        except BaseException:
            self._places.release()
            raise
        begun.add_done_callback(lambda _: self._places.release())
        return begun

    def close(self) -> None:
        """Begin no more; what is under way ends by its own time-outs."""
        self._threads.shutdown(wait=False, cancel_futures=True)
