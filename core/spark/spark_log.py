"""Log output of Spark, which is not shown to users; the last lines of Java's are retained.

Java logs warnings before any of Spark's settings is read, and Python workers write freely. Users
need none of it, unless Spark does not start: then the last lines give the reason.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

MAX_LINES = 200
CONTEXT_LOGGERS = "SQLQueryContextLogger", "DataFrameQueryContextLogger"
"""The loggers by which pyspark writes Java's exceptions of queries to standard error."""


@contextmanager
def silence_pyspark() -> Iterator[None]:
    """Keep pyspark from logging the exceptions that it raises."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in CONTEXT_LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


class OutputPipe:
    """A pipe for a process's output; `lines` returns the last lines."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._reading, self.writing = os.pipe()
        self._thread = threading.Thread(target=self._read, name="headrace-spark-says", daemon=True)
        self._thread.start()

    def close_writer(self) -> None:
        """Close our writing end, once the process has it: the pipe ends with its last writer."""
        os.close(self.writing)

    def lines(self) -> Sequence[str]:
        """Return the last lines; all remaining output if the process has ended."""
        self._thread.join(1.0)
        return tuple(self._lines)

    def _read(self) -> None:
        with open(self._reading, encoding="utf-8", errors="replace") as pipe:
            for line in pipe:
                self._lines.append(line.rstrip())
