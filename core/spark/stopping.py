"""Cancellation of a batch on request.

Spark cancels only the jobs that run at that time, not later ones. So jobs are cancelled repeatedly
until the batch has given up. The commit of written output has no Spark job, and is allowed to
finish.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

CANCEL_EVERY_S = 0.2


class BatchCancellation:
    """A request to stop, from any thread."""

    def __init__(self) -> None:
        self._stop_event = threading.Event()
        self._end_event = threading.Event()

    @property
    def is_requested(self) -> bool:
        """Whether the batch must stop."""
        return self._stop_event.is_set()

    def request(self) -> None:
        """Request the batch to stop."""
        self._stop_event.set()

    @contextmanager
    def cancel_jobs(self, context: SparkContext) -> Iterator[None]:
        """Cancel Spark's jobs within the `with`, once a stop is requested."""
        thread = threading.Thread(target=self._cancel, args=(context,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._end_event.set()
            thread.join()

    def _cancel(self, context: SparkContext) -> None:
        while not self._end_event.wait(CANCEL_EVERY_S):
            if self.is_requested:
                with suppress(Exception):  # Spark may have ended just now
                    context.cancelAllJobs()
