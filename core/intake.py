"""The source task: reads splits, and sends their rows, watermarks and barriers downstream.

A watermark is sent after the rows that imply it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.core import taken
from headrace.core.arrivals import Arrivals
from headrace.core.blame import blamed
from headrace.core.channel import Bounds
from headrace.core.contracts import Chunk, Ended, Reading
from headrace.core.elements import Barrier, End
from headrace.core.frames import joined
from headrace.core.messages import Progress, Split
from headrace.core.plan import nodes
from headrace.core.task import Flow
from headrace.core.timing import Timing
from headrace.core.waiting import Waiting

if TYPE_CHECKING:
    import polars as pl

GATHERING_S = 0.001
"""The longest time that rows wait while further available chunks are added to their batch."""


@dataclass(slots=True)
class Intake:
    """Reads the splits of one source's subtask into its operators.

    Small chunks that are available at the same time are sent as one batch: a fast source must not
    be slowed down by small chunks. With `linger_s`, rows wait that long for more.
    """

    source: nodes.Source
    reading: InitVar[Reading]
    flow: Flow
    now_us: Callable[[], int]
    timing: Timing
    bounds: Bounds = field(default_factory=Bounds)
    rows_in: int = 0
    bad: int = 0
    idle: Waiting = field(default_factory=Waiting)
    """The time in which no chunk arrived and the reader did no work."""
    _arrivals: Arrivals = field(init=False)
    _worked_s: Callable[[], float] = field(init=False)
    lags: Callable[[], Mapping[Split, int]] = field(init=False)
    """Returns the number of records left to read, by split."""
    number: int = 0
    """The position of the source among the plan's parts."""
    _splits: dict[Split, Progress] = field(default_factory=dict)
    """The progress of each split, without its current watermark."""
    _triggers: deque[int] = field(default_factory=deque)
    """The checkpoints whose barriers have not been sent yet."""
    _halted: bool = False
    _kept: list[pl.DataFrame] = field(default_factory=list)
    _kept_rows: int = 0
    _since: float | None = None
    """The time since which the first of the buffered rows has been waiting."""

    def __post_init__(self, reading: Reading) -> None:
        self._arrivals = Arrivals(reading)
        self._worked_s = reading.worked_s
        self.lags = reading.lags

    def assign(self, splits: Sequence[tuple[Split, Progress]], *, last: bool) -> None:
        """Add splits to read; `last`: no more will be assigned."""
        self._splits.update(splits)
        unfinished = [(split, progress) for split, progress in splits if not progress.ended]
        self.timing.watermarks.assign({s: p.at_us for s, p in unfinished}, last=last)
        self._arrivals.assign([(split, p.position) for split, p in unfinished], last=last)

    def hold(self, until_us: int) -> None:
        """Pause the splits whose watermark is past this time."""
        self.timing.hold(until_us)
        self._arrivals.wake()

    def stop(self) -> None:
        """Stop reading, and finish."""
        self._arrivals.stop()

    def halt(self) -> None:
        """Stop reading, but do not finish: a checkpoint will follow."""
        self._halted = True
        self._arrivals.wake()

    def trigger(self, checkpoint: int) -> None:
        """Send the barrier of a checkpoint after the rows read so far."""
        self._triggers.append(checkpoint)
        self._arrivals.wake()

    @property
    def splits(self) -> dict[Split, Progress]:
        """The progress of each split, with its watermark; it counts rows that are buffered.

        At a barrier nothing is buffered, so it covers exactly the rows sent before.
        """
        times = self.timing.watermarks.times
        return {s: replace(p, at_us=times.get(s, p.at_us)) for s, p in self._splits.items()}

    @property
    def progress(self) -> Mapping[Split, Progress]:
        """The same, without the current watermarks."""
        return self._splits

    async def pump(self) -> None:
        """Read to the end, or until a stop is requested; then send the end of the stream."""
        with self.flow.life:
            await self._pump()

    async def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        self.idle.clock = lambda: loop.time() - self._worked_s()
        try:
            while not self._arrivals.ended:
                with self.idle:
                    await self._arrivals.wait(self._until())
                came = await self._take(loop.time())
                if self._is_due(loop.time(), came):
                    await self._send()
                await self._tell_time(loop.time())
                await self._send_barriers()
            await self._send()
        finally:
            await self._arrivals.close()
        self.timing.watermarks.finish()
        await self._tell_time(loop.time())
        await self.flow.mark(End())

    async def _send_barriers(self) -> None:
        while self._triggers:
            await self._send()
            await self.flow.barrier(Barrier(self._triggers.popleft()), self.splits)

    async def _tell_time(self, now: float) -> None:
        """Send the watermark, unless the rows that imply it are still buffered."""
        self.timing.mind(now)
        if self._arrivals.assigned and not self._kept:
            for element in self.timing.watermarks.news():
                await self.flow.mark(element)

    async def _take(self, now: float) -> bool:
        """Take the next event of the reader, if there is one; return whether there was."""
        if self._halted:
            return False
        with blamed(self.source.name):
            match arrival := self._arrivals.take():
                case Chunk():
                    await self._keep(arrival, now)
                case Ended(split):
                    self.timing.watermarks.ended(split)
                    self._splits[split] = replace(self._splits[split], ended=True)
        return arrival is not None

    async def _keep(self, chunk: Chunk, now: float) -> None:
        self.rows_in += chunk.frame.height
        if chunk.bad:
            await self._bad(chunk)
        at_us = None
        if chunk.frame.height:
            at_us = await self._time(chunk.frame)
            if not self._kept:
                self._since = now
            self._kept.append(self._numbered(chunk))
            self._kept_rows += chunk.frame.height
        if chunk.frame.height or chunk.bad:
            # A chunk of neither only moves the position: the split may be idle all the same.
            self.timing.watermarks.came(chunk.split, at_us)
        self._count(chunk)

    def _count(self, chunk: Chunk) -> None:
        """Record the progress of the chunk's split."""
        before = self._splits[chunk.split]
        rows, bad = before.rows + chunk.frame.height, before.bad + len(chunk.bad)
        self._splits[chunk.split] = replace(before, position=chunk.position, rows=rows, bad=bad)

    async def _time(self, frame: pl.DataFrame) -> int | None:
        """Return the watermark that rows imply; in a thread if a user's function computes it."""
        time_of = self.timing.time_of
        rows = frame.height if time_of.calls_user else 0
        return await self.flow.bench.run(rows, partial(time_of.read, frame))

    def _numbered(self, chunk: Chunk) -> pl.DataFrame:
        """Return the rows, with their numbers if a step depends on the order of rows."""
        if not self.source.outputs[0].ordered:
            return chunk.frame
        return taken.numbered(self.number, chunk, self._splits[chunk.split].rows)

    def _until(self) -> float | None:
        """Return the time up to which to wait for the next event; None: without limit."""
        sent_at = None if self._since is None else self._since + self.bounds.linger_s
        deadlines = (sent_at, self.timing.again_at())
        return min((at for at in deadlines if at is not None), default=None)

    def _is_due(self, now: float, came: bool) -> bool:
        """Whether the buffered rows have waited long enough for more, or are enough."""
        if self._since is None:
            return False
        linger_s = self.bounds.linger_s
        waits_s = max(linger_s, GATHERING_S) if came else linger_s
        return self._kept_rows >= self.bounds.rows or now >= self._since + waits_s

    async def _send(self) -> None:
        frames, self._kept, self._kept_rows, self._since = self._kept, [], 0, None
        if frames:
            await self.flow.rows(self.source.name, taken.timed(self.source, joined(frames)))

    async def _bad(self, chunk: Chunk) -> None:
        if self.source.on_error == "fail":
            raise taken.refusal(chunk)
        self.bad += len(chunk.bad)
        if self.source.on_error != "skip":
            before = self._splits[chunk.split].bad
            letters = taken.letters(self.source, self.number, chunk, before, self.now_us())
            await self.flow.side(self.source.on_error, letters)
