"""The writer of a connection's frames: encodes batches, and writes them to the socket."""

from __future__ import annotations

import asyncio
import io
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.exchange.batch_codec import LONG_BYTES, write_batch
from headrace.core.exchange.byte_stream import ByteStream
from headrace.core.exchange.wire_format import HEADER, FrameKind, encode_control
from headrace.core.types.elements import ControlElement

if TYPE_CHECKING:
    import polars as pl

HEADER_SPACE = bytes(HEADER.size)


class FrameWriter:
    """Writes the frames of all channels of a connection.

    Its methods return None if the frame is written or lost, else a future that waits for it.
    """

    def __init__(self, stream: ByteStream, kernel_executor: KernelExecutor) -> None:
        self._stream = stream
        self._executor = kernel_executor
        self._spare: io.BytesIO | None = None
        """A buffer to use again: fresh memory costs more than the rows that fill it."""

    @property
    def is_broken(self) -> bool:
        """Whether what is written is lost."""
        return self._stream.is_broken

    async def write_batch(
        self, channel: int, frame: pl.DataFrame, size: int
    ) -> asyncio.Future[None] | None:
        """Encode and write a piece of a batch; `size` is what it takes of the channel's bytes."""
        file, self._spare = self._spare or io.BytesIO(), None
        file.seek(0)
        file.write(HEADER_SPACE)
        if size > LONG_BYTES:
            await self._executor.run_blocking(partial(write_batch, frame, file))
        else:
            write_batch(frame, file)
        end = file.tell()
        data = file.getbuffer()[:end]
        body = end - HEADER.size
        HEADER.pack_into(data, 0, FrameKind.BATCH, 0, channel, frame.height, size, body)
        pending = self._stream.write(data)
        if pending is None and end <= LONG_BYTES:
            self._spare = file
        return pending

    def write_control(self, channel: int, element: ControlElement) -> asyncio.Future[None] | None:
        """Write a control element."""
        return self._stream.write(encode_control(channel, element))

    def write_room(self, kind: FrameKind, channel: int, rows: int, size: int) -> None:
        """Write bounds, a credit or a backlog; there are never more of them than batches."""
        self._stream.write(HEADER.pack(kind, 0, channel, rows, size, 0))
