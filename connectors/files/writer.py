"""Output of one subtask as files: a part a folder goes on over batches until it is full.

Rows are encoded where they come, in a thread when they are many, and pile up as bytes; the disk is
only touched when enough have gathered, so that ten rows a batch cost no system call each.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headrace.connectors.columns import visible
from headrace.connectors.files.compression import SUFFIXES, packer
from headrace.connectors.files.disk import remove, sync
from headrace.connectors.files.failing import telling
from headrace.connectors.files.folders import Spread
from headrace.connectors.files.names import PartName
from headrace.connectors.files.options import Compression, Roll
from headrace.connectors.files.part import Part
from headrace.connectors.formats.contract import BytesEncoder
from headrace.core.bench import Bench
from headrace.core.messages import Handle

if TYPE_CHECKING:
    import polars as pl

ENOUGH = 4 << 20
"""So many bytes are worth a visit to the disk."""


@dataclass(frozen=True, slots=True)
class Output:
    """What all subtasks of a sink have in common."""

    folder: str
    job: str
    columns: tuple[str, ...]
    spread: Spread
    encoder: BytesEncoder
    compression: Compression
    roll: Roll
    bench: Bench
    replaces: bool
    """Whether old output goes at the first commit, even where no rows come in its place."""


class FilesWriter:
    """The parts of one subtask; `sequence` is the number of its first."""

    def __init__(self, output: Output, subtask: int, sequence: int) -> None:
        self._output = output
        self._subtask = subtask
        self._sequence = sequence
        self._open: dict[str, Part] = {}
        self._full: list[Part] = []
        self._done: list[Part] = []
        self._waiting = 0
        self._row_bytes = 0.0
        self._prepared = False

    async def write(self, frame: pl.DataFrame) -> None:
        """Take rows."""
        output, now_s = self._output, asyncio.get_running_loop().time()
        rows = visible(frame, output.columns)
        await output.bench.run(rows.height, partial(self._take, rows, now_s))
        if self._waiting >= ENOUGH or self._full:
            await output.bench.blocking(self._flush)

    async def prepare(self) -> Handle | None:
        """End all parts: safe on disk, hidden, and named in the handle."""
        parts = await self._output.bench.blocking(self._finish)
        if not parts and (self._prepared or not self._output.replaces):
            return None
        self._prepared = True
        return {"parts": [{"path": part.path, "size": part.size} for part in parts]}

    async def close(self) -> None:
        """Remove what was not prepared."""
        await self._output.bench.blocking(self._drop)

    def _take(self, frame: pl.DataFrame, now_s: float) -> None:
        for folder, part in list(self._open.items()):
            every = self._output.roll.every
            if every and now_s - part.since_s >= every.total_seconds():
                self._full.append(self._open.pop(folder))
        for folder, rows in self._output.spread(frame):
            for piece, part in self._pieces(folder, rows, now_s):
                came = part.put(self._output.encoder.encode(piece), piece.height)
                self._waiting += came
                self._row_bytes = came / piece.height

    def _pieces(
        self, folder: str, rows: pl.DataFrame, now_s: float
    ) -> Iterator[tuple[pl.DataFrame, Part]]:
        """The rows, each run of them with the part that it still fits in."""
        while rows.height:
            part = self._part(folder, now_s)
            piece = rows.head(self._room(part, rows))
            yield piece, part
            rows = rows.slice(piece.height)
            if self._is_full(part):
                self._full.append(self._open.pop(folder))

    def _part(self, folder: str, now_s: float) -> Part:
        if folder in self._open:
            return self._open[folder]
        output = self._output
        suffix = output.encoder.suffix + SUFFIXES[output.compression]
        name = PartName(output.job, self._subtask, self._sequence, suffix)
        self._sequence += 1
        part = Part(
            output.folder, os.path.join(folder, str(name)), packer(output.compression), now_s
        )
        self._open[folder] = part
        if header := output.encoder.header():
            self._waiting += part.put(header, 0)
        return part

    def _room(self, part: Part, rows: pl.DataFrame) -> int:
        """How many of these rows the part takes, by the bytes that rows had before."""
        roll, room = self._output.roll, rows.height
        if roll.rows:
            room = min(room, roll.rows - part.rows)
        if roll.bytes:
            each = self._row_bytes or rows.estimated_size() / rows.height
            room = min(room, int((roll.bytes - part.size) / max(each, 1)))
        return max(room, 1)

    def _is_full(self, part: Part) -> bool:
        roll = self._output.roll
        by_rows = roll.rows and part.rows >= roll.rows
        by_bytes = roll.bytes and part.size + self._row_bytes > roll.bytes
        return bool(by_rows or by_bytes)

    def _flush(self) -> None:
        """Write what waits, and end the parts that are full."""
        while self._full:
            self._full[-1].finish()
            self._done.append(self._full.pop())
        for part in self._open.values():
            if part.waiting:
                part.flush()
        self._waiting = 0

    def _finish(self) -> list[Part]:
        self._full.extend(self._open.values())
        self._open.clear()
        self._flush()
        done, self._done = self._done, []
        with telling(f"write into {self._output.folder}"):
            for folder in {os.path.dirname(part.hidden) for part in done}:
                sync(folder)
        return done

    def _drop(self) -> None:
        for part in (*self._open.values(), *self._full, *self._done):
            if part.on_disk:
                with suppress(OSError):
                    remove(part.hidden)
        self._open.clear()
        self._full.clear()
        self._done.clear()
