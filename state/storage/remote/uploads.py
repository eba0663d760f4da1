"""Uploads in background threads, limited in number.

A round trip to a bucket takes tens of milliseconds, so small blobs are uploaded in parallel. A
caller with one more than the limit waits for a slot, so that the data in flight fits into memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

MAX_CONCURRENT_UPLOADS = 8


class UploadPool:
    """Thread pool with as many slots as threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(
            MAX_CONCURRENT_UPLOADS, thread_name_prefix="headrace-upload"
        )
        self._slots = threading.BoundedSemaphore(MAX_CONCURRENT_UPLOADS)

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Start the upload as soon as a slot is free."""
        self._slots.acquire()
        try:
            begun = self._threads.submit(work)
        except BaseException:
            self._slots.release()
            raise
        begun.add_done_callback(lambda _: self._slots.release())
        return begun

    def close(self) -> None:
        """Start no more uploads; running ones end by their own time-outs."""
        self._threads.shutdown(wait=False, cancel_futures=True)
