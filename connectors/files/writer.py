"""Output of one subtask as files: each folder has one open part, filled until it is full.

Rows are encoded as they come, large batches in a thread, and buffered as bytes; the disk is only
touched when enough bytes are buffered, so that ten rows a batch cost no system call each.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headrace.connectors.files.body import Bodies
from headrace.connectors.files.disk import discard, sync_folders
from headrace.connectors.files.failing import telling
from headrace.connectors.files.folders import Spread
from headrace.connectors.files.names import PartName, hidden
from headrace.connectors.files.options import Roll
from headrace.connectors.files.part import Part
from headrace.core.bench import Bench
from headrace.core.frames import of_columns
from headrace.core.messages import Handle
from headrace.core.state import Document

if TYPE_CHECKING:
    import polars as pl

ENOUGH = 4 << 20
"""Buffered bytes that are worth a write to disk."""
SAMPLE = 1000
"""Rows from which the encoded size of a row is estimated."""
MOST_HELD = 128 << 20
"""Maximum memory, in bytes, of rows that are not encoded yet."""


@dataclass(frozen=True, slots=True)
class Output:
    """The settings that all subtasks of a sink share."""

    folder: str
    job: str
    columns: tuple[str, ...]
    spread: Spread
    bodies: Bodies
    suffix: str
    roll: Roll
    bench: Bench
    weight: int
    """The relative cost of a row: with folders, a few rows may be as many files."""
    replaces: bool
    """Whether the first commit removes old output, even if there are no new rows."""


class FilesWriter:
    """Writes the parts of one subtask; `sequence` is the number of the first.

    `appends`: the parts are added to other output and never replace it.
    """

    def __init__(
        self, output: Output, subtask: int, sequence: int, *, appends: bool = False
    ) -> None:
        self._output = output
        self._subtask = subtask
        self._sequence = sequence
        self._beside: dict[str, object] = {"beside": True} if appends else {}
        self._open: dict[str, Part] = {}
        self._full: list[Part] = []
        self._done: list[Part] = []
        self._waiting = 0
        self._row_bytes = 0.0
        self._prepared = False

    async def write(self, frame: pl.DataFrame) -> None:
        output, now_s = self._output, asyncio.get_running_loop().time()
        rows = of_columns(frame, output.columns)
        await output.bench.run(rows.height * output.weight, partial(self._take, rows, now_s))
        if self._waiting >= ENOUGH or self._full:
            await output.bench.blocking(self._flush)

    async def prepare(self) -> Handle | None:
        """Finish all parts: durable, hidden, and listed in the handle."""
        await self._output.bench.blocking(self._finish)
        # From here on, `close` no longer removes them.
        parts, self._done = self._done, []
        if not parts and (self._prepared or not self._output.replaces):
            return None
        self._prepared = True
        said = [{"path": part.path, "size": part.size} for part in parts]
        return {"parts": said, **self._beside}

    def kept(self) -> Document:
        """Return the next part number, so that none is used twice even if parts are moved away.

        The job's id shows a job that resumes from a savepoint whose output it was.
        """
        return {"sequence": self._sequence, "job": self._output.job, **self._beside}

    async def close(self) -> None:
        """Remove parts that were not prepared."""
        await self._output.bench.blocking(self._drop)

    def _take(self, frame: pl.DataFrame, now_s: float) -> None:
        for folder in self._old(now_s):
            self._close(folder)
        for folder, rows in self._output.spread(frame):
            for piece, part in self._pieces(folder, rows, now_s):
                self._waiting += part.put(piece)
                self._learn(part, piece)
        if sum(part.body.buffered_bytes for part in self._open.values()) > MOST_HELD:
            for part in self._open.values():
                self._waiting += part.rest()

    def _old(self, now_s: float) -> list[str]:
        """Return the folders whose open part has reached the age limit."""
        every = self._output.roll.every
        if every is None:
            return []
        since_s = now_s - every.total_seconds()
        return [folder for folder, part in self._open.items() if part.since_s <= since_s]

    def _pieces(
        self, folder: str, rows: pl.DataFrame, now_s: float
    ) -> Iterator[tuple[pl.DataFrame, Part]]:
        """Yield runs of the rows, each with the part that has room for it."""
        while rows.height:
            part = self._part(folder, now_s)
            piece = rows.head(self._room(part, rows))
            yield piece, part
            rows = rows.slice(piece.height)
            if self._is_full(part):
                self._close(folder)

    def _close(self, folder: str) -> None:
        """Mark a part as full; its size gives the estimate for the next one."""
        part = self._open.pop(folder)
        self._waiting += part.rest()
        self._row_bytes = part.size / part.rows
        self._full.append(part)

    def _part(self, folder: str, now_s: float) -> Part:
        part = self._open.get(folder)
        if part is None:
            output = self._output
            name = PartName(output.job, self._subtask, self._sequence, output.suffix)
            self._sequence += 1
            path = os.path.join(folder, str(name))
            part = self._open[folder] = Part(output.folder, path, output.bodies(), now_s)
        return part

    def _room(self, part: Part, rows: pl.DataFrame) -> int:
        """Return how many of these rows fit the part, by the estimated size of a row."""
        roll, room = self._output.roll, rows.height
        if roll.rows:
            room = min(room, roll.rows - part.rows)
        if roll.bytes:
            known = self._row_bytes
            room = min(room, int((roll.bytes - self._size(part)) / known) if known else SAMPLE)
        return max(room, 1)

    def _learn(self, part: Part, piece: pl.DataFrame) -> None:
        """Estimate the size of a row; while bytes are held back, from the last part."""
        if not part.body.buffered_bytes:
            self._row_bytes = part.size / part.rows
        elif not self._row_bytes:
            self._row_bytes = piece.estimated_size() / piece.height

    def _is_full(self, part: Part) -> bool:
        roll = self._output.roll
        by_rows = roll.rows and part.rows >= roll.rows
        by_bytes = roll.bytes and self._size(part) + self._row_bytes > roll.bytes
        return bool(by_rows or by_bytes)

    def _size(self, part: Part) -> float:
        """Estimate the size of a part; rows held back count with the estimated row size."""
        return max(part.size, part.rows * self._row_bytes if part.body.buffered_bytes else 0)

    def _flush(self) -> None:
        """Write buffered bytes, and finish the parts that are full."""
        while self._full:
            self._full[-1].finish()
            self._done.append(self._full.pop())
        for part in self._open.values():
            if part.waiting:
                part.flush()
        self._waiting = 0

    def _finish(self) -> None:
        self._full.extend(self._open.values())
        self._open.clear()
        self._flush()
        with telling(f"write into {self._output.folder}"):
            sync_folders(self._output.folder, [part.hidden for part in self._done])

    def _drop(self) -> None:
        for part in (*self._open.values(), *self._full, *self._done):
            if part.on_disk:
                with suppress(OSError):
                    discard(part.folder, hidden(part.path))
        self._open.clear()
        self._full.clear()
        self._done.clear()
