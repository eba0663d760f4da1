"""Taps: requests for the rows that pass in a running job, and samples of these rows."""

from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING, Any

from headrace.core.types.frames import write_arrow
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class TapRequest:
    """A request for the rows of a source or step; `where`: only those that meet a condition."""

    stream: str
    where: str | None = None

    @property
    def key(self) -> str:
        """The key of its events."""
        return f"{self.stream}\n{self.where or ''}"

    def build_document(self) -> dict[str, Any]:
        """Return the request as plain data."""
        return {"from": self.stream, "where": self.where}


@dataclass(frozen=True, slots=True)
class TapSample:
    """Some of the rows that have passed since the sample before."""

    request: TapRequest
    rows: pl.DataFrame | None
    """The rows, with the columns of the stream that the job has; None: there are none."""
    dropped: int
    """The number of rows that passed and were not looked at, or were too many."""
    rejection: TapError | None = None
    """Why the tap has ended; None if it has not."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the rows as an Arrow stream.

        Polars' own pickles keep the interpreter's lock while they wait for threads of Polars, which
        may wait for that lock to call a function: the process of the job would stand still.
        """
        data = None
        if self.rows is not None:
            write_arrow(self.rows, file := io.BytesIO())
            data = file.getvalue()
        return _restore_sample, (self.request, data, self.dropped, self.rejection)


def _restore_sample(
    request: TapRequest, data: bytes | None, dropped: int, rejection: TapError | None
) -> TapSample:
    import polars as pl

    rows = None if data is None else pl.read_ipc_stream(data)
    return TapSample(request, rows, dropped, rejection)


class TapError(Exception):
    """A tap that cannot be: of an unknown stream, or with an invalid condition."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint)  # all of them, so that it can be pickled
        self.code = code
        self.message = message
        self.hint = hint


PROCESS_ENDS = (KeyboardInterrupt, asyncio.CancelledError)
"""The exceptions that no tap has caused; any other ends its tap, and no job or other tap."""


def build_rejection(error: BaseException) -> TapError:
    """Return the rejection of a tap whose rows have caused an error, or a panic of Polars."""
    if isinstance(error, TapError):
        return error
    return TapError("failed", str(error) or type(error).__name__)
