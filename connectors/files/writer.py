"""Output of one subtask as files: each folder has one open part, filled until it is full.

Rows are encoded as they come, large batches in a thread, and buffered as bytes; the disk is only
touched when enough bytes are buffered, so that ten rows a batch cost no system call each.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from headrace.connectors.files.disk import remove_with_folders, sync_folders
from headrace.connectors.files.errors import translate_errors
from headrace.connectors.files.names import PartName, format_hidden_path
from headrace.connectors.files.options import Roll
from headrace.connectors.files.output_parts import BodyFactory, FolderDivision, OutputPart
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.splits import Handle
from headrace.core.api.state import Document
from headrace.core.types.frames import pick_columns
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

FLUSH_BYTES = 4 << 20
"""Buffered bytes that are worth a write to disk."""
SAMPLE_ROWS = 1000
"""Rows from which the encoded size of a row is estimated."""
MAX_BUFFERED_BYTES = 128 << 20
"""Maximum memory, in bytes, of rows that are not encoded yet."""


@dataclass(frozen=True, slots=True)
class FilesOutput:
    """The settings that all subtasks of a sink share."""

    folder: str
    job: str
    columns: tuple[str, ...]
    divide_rows: FolderDivision
    start_body: BodyFactory
    suffix: str
    roll: Roll
    kernel_executor: KernelExecutor
    row_cost: int
    """The relative cost of a row: with folders, a few rows may be as many files."""
    replaces_output: bool
    """Whether the first commit removes old output, even if there are no new rows."""


class FilesWriter:
    """Writes the parts of one subtask; `sequence` is the number of the first.

    `appends`: the parts are added to other output and never replace it.
    """

    def __init__(
        self, output: FilesOutput, subtask: int, sequence: int, *, appends: bool = False
    ) -> None:
        self._output = output
        self._subtask = subtask
        self._sequence = sequence
        self._beside: dict[str, object] = {"beside": True} if appends else {}
        self._open: dict[str, OutputPart] = {}
        self._full: list[OutputPart] = []
        self._done: list[OutputPart] = []
        self._waiting = 0
        self._row_bytes = 0.0
        self._prepared = False

    async def write(self, frame: pl.DataFrame) -> None:
        output, now_s = self._output, asyncio.get_running_loop().time()
        rows = pick_columns(frame, output.columns)
        await output.kernel_executor.run(
            rows.height * output.row_cost, partial(self._add_rows, rows, now_s)
        )
        if self._waiting >= FLUSH_BYTES or self._full:
            await output.kernel_executor.run_blocking(self._flush_parts)

    async def prepare(self) -> Handle | None:
        """Finish all parts: durable, hidden, and listed in the handle."""
        await self._output.kernel_executor.run_blocking(self._finish_parts)
        # From here on, `close` no longer removes them.
        parts, self._done = self._done, []
        if not parts and (self._prepared or not self._output.replaces_output):
            return None
        self._prepared = True
        entries = [{"path": part.path, "size": part.size} for part in parts]
        return {"parts": entries, **self._beside}

    def snapshot_state(self) -> Document:
        """Return the next part number, so that none is used twice even if parts are moved away.

        The job's id shows a job that resumes from a savepoint whose output it was.
        """
        return {"sequence": self._sequence, "job": self._output.job, **self._beside}

    async def close(self) -> None:
        """Remove parts that were not prepared."""
        await self._output.kernel_executor.run_blocking(self._drop_parts)

    def _add_rows(self, frame: pl.DataFrame, now_s: float) -> None:
        for folder in self._list_expired(now_s):
            self._close_part(folder)
        for folder, rows in self._output.divide_rows(frame):
            for piece, part in self._divide_by_part(folder, rows, now_s):
                self._waiting += part.add(piece)
                self._estimate_row_bytes(part, piece)
        if sum(part.body.buffered_bytes for part in self._open.values()) > MAX_BUFFERED_BYTES:
            for part in self._open.values():
                self._waiting += part.encode_rest()

    def _list_expired(self, now_s: float) -> list[str]:
        """Return the folders whose open part has reached the age limit."""
        every = self._output.roll.every
        if every is None:
            return []
        since_s = now_s - every.total_seconds()
        return [folder for folder, part in self._open.items() if part.opened_at_s <= since_s]

    def _divide_by_part(
        self, folder: str, rows: pl.DataFrame, now_s: float
    ) -> Iterator[tuple[pl.DataFrame, OutputPart]]:
        """Yield runs of the rows, each with the part that has room for it."""
        while rows.height:
            part = self._get_part(folder, now_s)
            piece = rows.head(self._count_fitting_rows(part, rows))
            yield piece, part
            rows = rows.slice(piece.height)
            if self._is_full(part):
                self._close_part(folder)

    def _close_part(self, folder: str) -> None:
        """Mark a part as full; its size gives the estimate for the next one."""
        part = self._open.pop(folder)
        self._waiting += part.encode_rest()
        self._row_bytes = part.size / part.rows
        self._full.append(part)

    def _get_part(self, folder: str, now_s: float) -> OutputPart:
        part = self._open.get(folder)
        if part is None:
            output = self._output
            name = PartName(output.job, self._subtask, self._sequence, output.suffix)
            self._sequence += 1
            path = os.path.join(folder, str(name))
            part = self._open[folder] = OutputPart(output.folder, path, output.start_body(), now_s)
        return part

    def _count_fitting_rows(self, part: OutputPart, rows: pl.DataFrame) -> int:
        """Return how many of these rows fit the part, by the estimated size of a row."""
        roll, room = self._output.roll, rows.height
        if roll.rows:
            room = min(room, roll.rows - part.rows)
        if roll.bytes:
            known = self._row_bytes
            room = min(
                room,
                int((roll.bytes - self._estimate_size(part)) / known) if known else SAMPLE_ROWS,
            )
        return max(room, 1)

    def _estimate_row_bytes(self, part: OutputPart, piece: pl.DataFrame) -> None:
        """Estimate the size of a row; while bytes are held back, from the last part."""
        if not part.body.buffered_bytes:
            self._row_bytes = part.size / part.rows
        elif not self._row_bytes:
            self._row_bytes = piece.estimated_size() / piece.height

    def _is_full(self, part: OutputPart) -> bool:
        roll = self._output.roll
        by_rows = roll.rows and part.rows >= roll.rows
        by_bytes = roll.bytes and self._estimate_size(part) + self._row_bytes > roll.bytes
        return bool(by_rows or by_bytes)

    def _estimate_size(self, part: OutputPart) -> float:
        """Estimate the size of a part; rows held back count with the estimated row size."""
        return max(part.size, part.rows * self._row_bytes if part.body.buffered_bytes else 0)

    def _flush_parts(self) -> None:
        """Write buffered bytes, and finish the parts that are full."""
        while self._full:
            self._full[-1].finish()
            self._done.append(self._full.pop())
        for part in self._open.values():
            if part.buffers:
                part.flush()
        self._waiting = 0

    def _finish_parts(self) -> None:
        self._full.extend(self._open.values())
        self._open.clear()
        self._flush_parts()
        with translate_errors(f"write into {self._output.folder}"):
            sync_folders(self._output.folder, [part.hidden_path for part in self._done])

    def _drop_parts(self) -> None:
        for part in (*self._open.values(), *self._full, *self._done):
            if part.on_disk:
                with suppress(OSError):
                    remove_with_folders(part.folder, format_hidden_path(part.path))
        self._open.clear()
        self._full.clear()
        self._done.clear()
