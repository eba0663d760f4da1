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

LOOKS_EVERY_S = 0.2


class Stopping:
    """A request to stop, from any thread."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._over = threading.Event()

    @property
    def asked(self) -> bool:
        """Whether the batch must stop."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Request the batch to stop."""
        self._asked.set()

    @contextmanager
    def heard(self, context: SparkContext) -> Iterator[None]:
        """Cancel Spark's jobs within the `with`, once a stop is requested."""
        thread = threading.Thread(target=self._cancel, args=(context,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _cancel(self, context: SparkContext) -> None:
        while not self._over.wait(LOOKS_EVERY_S):
            if self.asked:
                with suppress(Exception):  # Spark may have ended just now
                    context.cancelAllJobs()
