"""The end of a batch before its end, because somebody asked for it.

Spark cancels the jobs that run, and knows nothing of those that come. So they are cancelled again
and again, until whoever began them has given up. What has no job any more, the commit of what was
written, is let finish.
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
    """Whether somebody has asked; from any thread."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._over = threading.Event()

    @property
    def asked(self) -> bool:
        """Whether the batch is to end."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Have it end."""
        self._asked.set()

    @contextmanager
    def heard(self, context: SparkContext) -> Iterator[None]:
        """Within this, jobs are cancelled once somebody has asked."""
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
