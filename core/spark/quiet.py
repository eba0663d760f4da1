"""What Spark says beside its answers: of Java it is kept for a while, and nobody is shown it.

Java complains before any of Spark's settings is read, and the workers in Python say what they like.
None of it is for whoever runs a pipeline, unless Spark does not come up: then the last of it tells
why.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

KEPT = 200
CONTEXTS = "SQLQueryContextLogger", "DataFrameQueryContextLogger"
"""By these pyspark writes to standard error whatever Java has raised of a query."""


@contextmanager
def unwritten() -> Iterator[None]:
    """Within this, pyspark raises what it raises, and does not write it as well."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in CONTEXTS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


class Said:
    """A pipe to be given to a process; `lines` are the last that came."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._reading, self.writing = os.pipe()
        self._thread = threading.Thread(target=self._read, name="headrace-spark-says", daemon=True)
        self._thread.start()

    def started(self) -> None:
        """The process has the pipe: it ends when the last of those that have it is gone."""
        os.close(self.writing)

    def lines(self) -> Sequence[str]:
        """What was said last; of a process that is gone, to its end."""
        self._thread.join(1.0)
        return tuple(self._lines)

    def _read(self) -> None:
        with open(self._reading, encoding="utf-8", errors="replace") as pipe:
            for line in pipe:
                self._lines.append(line.rstrip())
