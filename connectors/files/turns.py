"""Reading of files with a row limit: one after the other, each when its turn has come.

Without a limit, `ThreadedSplitReader` reads them, and reads ahead even from one file to the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.connectors.files.quota import RowQuota
from headrace.connectors.threaded import ThreadedSplitReader
from headrace.core.contracts import RunContext, SourceEvent, SplitFinished
from headrace.core.messages import Position, Split

if TYPE_CHECKING:
    from headrace.connectors.files.rows import AnyFileReader


class QuotaSplitReader:
    """A `SplitReader` that waits for each file's turn, as long as rows are wanted."""

    def __init__(self, reader: AnyFileReader, quota: RowQuota, surroundings: RunContext) -> None:
        self._reader = reader
        self._quota = quota
        self._surroundings = surroundings
        self._waiting: deque[tuple[Split, Position]] = deque()
        self._last = False
        self._reading: ThreadedSplitReader | None = None
        self._worked_s = 0.0

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Read these files after the others."""
        self._waiting.extend(splits)
        self._last = last
        self._quota.notify()

    def pause(self, splits: Collection[Split]) -> None:
        """Return nothing of these splits until the next call; only an open file needs it."""
        if self._reading is not None:
            self._reading.pause(splits)

    def list_exhausted(self) -> Mapping[Split, float]:
        """Return none: a file is never idle before its end."""
        return {}

    def measure_lags(self) -> Mapping[Split, int]:
        """Return none: the rows of a file are unknown before it is read."""
        return {}

    def measure_busy_s(self) -> float:
        """Return the seconds of work for this file and those before it."""
        return self._worked_s + (self._reading.measure_busy_s() if self._reading else 0.0)

    async def fetch(self) -> SourceEvent | None:
        """Return the next chunk of the first unfinished file; None when enough rows were read."""
        # A file once started is read to its end: a chunk of it may be ready already.
        while self._reading is None:
            if self._quota.left <= 0 or (self._last and not self._waiting):
                return None
            if self._waiting and self._quota.is_turn(self._waiting[0][0].name):
                self._reading = ThreadedSplitReader(self._reader, self._surroundings)
                self._reading.assign([self._waiting.popleft()], last=True)
            else:
                await self._quota.wait_for_change()
        arrival = await self._reading.fetch()
        if isinstance(arrival, SplitFinished):
            self._worked_s, self._reading = self.measure_busy_s(), None
            self._quota.end_turn(arrival.split.name)
        return arrival

    async def close(self) -> None:
        """Close the open file."""
        if self._reading is not None:
            await self._reading.close()
