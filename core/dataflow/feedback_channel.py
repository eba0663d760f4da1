"""The channel on which the rows of a loop come back to its head: its sender never waits.

A bounded channel in a circle of tasks could be full while its receiver waits for room in another
one of the circle. So rows are appended here whatever their number: up to a bound in memory, then at
the end of a temporary file. Above the limit of the head's subtask the job fails.
"""

from __future__ import annotations

import io
import tempfile
from collections import deque
from typing import IO, TYPE_CHECKING

from headrace.core.api.failures import ConnectorError
from headrace.core.dataflow.channel import Channel, ChannelBounds, ChannelStatistics
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.errors.full_disks import name_file
from headrace.core.errors.rendering import format_size
from headrace.core.types.elements import SEPARATORS, Batch, Element
from headrace.core.types.frames import concat_contiguous, write_arrow
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

CHANNELS_IN_MEMORY = 4
"""The size of the rows in memory, as a multiple of that of a full channel."""


@dataclass(frozen=True, slots=True)
class SpilledBatch:
    """A batch in the temporary file: its place there, and its number of rows."""

    offset: int
    length: int
    rows: int


@dataclass(slots=True)
class FeedbackBudget:
    """The size of the rows that one subtask at the head of a loop holds: those of all channels on
    which they come back, and those that it holds for a checkpoint.
    """

    loop: str
    """The step that is the head."""
    max_bytes: int
    rows: int = 0
    bytes: int = 0

    def add(self, rows: int, size: int) -> None:
        """Count rows. Raises ConnectorError if there are too many."""
        self.rows += rows
        self.bytes += size
        if self.bytes > self.max_bytes:
            message = (
                f"{self.rows} rows ({format_size(self.bytes)}) that came back are held at the head"
                f" of the loop, more than its max_in_loop of {format_size(self.max_bytes)}"
            )
            hint = "raise max_in_loop, or let fewer rows come of one inside: their number grows"
            with attribute_errors_to(self.loop):
                raise ConnectorError(message, hint, final=True)

    def remove(self, rows: int, size: int) -> None:
        """Count rows no longer."""
        self.rows -= rows
        self.bytes -= size


class FeedbackChannel(Channel):
    """A channel to the head of a loop; watermarks end in it, because the head has its own."""

    def __init__(self, budget: FeedbackBudget, bounds: ChannelBounds) -> None:
        """`budget` is that of the subtask which reads the channel."""
        super().__init__(bounds)
        self.budget = budget
        self._waiting: deque[tuple[Element | SpilledBatch, int]] = deque()
        self._memory_bytes = 0
        self._file: IO[bytes] | None = None
        self._file_end = 0

    async def put(self, element: Element) -> None:
        """Append an element at once. Raises ConnectorError if too many rows wait."""
        self.append(element)

    def append(self, element: Element, size: int = 0) -> None:
        """Append an element at once. Raises ConnectorError if too many rows wait."""
        if isinstance(element, Batch):
            self._append_rows(element)
        elif isinstance(element, SEPARATORS):
            self._waiting.append((element, 0))
            self.on_arrival()

    def _append_rows(self, batch: Batch) -> None:
        size = batch.bytes
        self._count_batch(batch.rows, size)
        self.budget.add(batch.rows, size)
        with attribute_errors_to(self.budget.loop):
            limit = CHANNELS_IN_MEMORY * self.bounds.bytes
            if self._memory_bytes and self._memory_bytes + size > limit:
                self._waiting.append((self._spill(batch), size))
            else:
                self._memory_bytes += size
                self._waiting.append((batch, size))
        self.on_arrival()

    def take(self) -> list[Element]:
        """Remove and return the next separator, or about a channelful of the rows before it."""
        frames: list[pl.DataFrame] = []
        taken = size_taken = 0
        while self._waiting and taken < self.bounds.rows:
            element, size = self._waiting[0]
            if isinstance(element, SEPARATORS):
                if not frames:
                    self._waiting.popleft()
                    return [element]
                break
            self._waiting.popleft()
            frames.append(self._load(element, size))
            taken += frames[-1].height
            size_taken += size
        self._statistics.waiting_rows -= taken
        self._statistics.waiting_bytes -= size_taken
        self.budget.remove(taken, size_taken)
        return [Batch(concat_contiguous(frames))] if frames else []

    @property
    def has_elements(self) -> bool:
        """Whether there is an element to take."""
        return bool(self._waiting)

    @property
    def is_crowded(self) -> bool:
        """Whether more rows wait than a bounded channel would hold."""
        now = self._statistics
        return now.waiting_rows > self.bounds.rows or now.waiting_bytes > self.bounds.bytes

    def statistics(self) -> ChannelStatistics:
        """Return the current figures; the object is updated in place later."""
        self._statistics.waiting_elements = len(self._waiting)
        return self._statistics

    def close(self) -> None:
        """Remove the temporary file, with the rows in it."""
        if self._file is not None:
            self._file.close()

    def _spill(self, batch: Batch) -> SpilledBatch:
        """Append a batch to the temporary file."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="headrace-loop-")  # noqa: SIM115 - until close
        buffer = io.BytesIO()
        write_arrow(batch.frame, buffer)
        spilled = SpilledBatch(self._file_end, buffer.tell(), batch.rows)
        with name_file(tempfile.gettempdir()):
            self._file.seek(self._file_end)
            self._file.write(buffer.getbuffer())
        self._file_end += spilled.length
        return spilled

    def _load(self, element: Element | SpilledBatch, size: int) -> pl.DataFrame:
        """Return the rows of a batch that has been taken; drop the file when all are read."""
        if isinstance(element, Batch):
            self._memory_bytes -= size
            return element.frame
        assert isinstance(element, SpilledBatch), element
        assert self._file is not None, "it was written to the file"
        import polars as pl

        self._file.seek(element.offset)
        frame = pl.read_ipc_stream(io.BytesIO(self._file.read(element.length)))
        if element.offset + element.length == self._file_end:
            self._file.truncate(0)
            self._file_end = 0
        return frame
