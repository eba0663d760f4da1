"""The head of a source's subtask: chunks become rows with their event time, or are told as bad.

What they say of time is told behind the rows that say it.
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
"""Rows that are there wait so long at most while others that are there too are taken to them."""


@dataclass(slots=True)
class Intake:
    """Reads one source's splits into a flow; counts what it read and what was bad.

    Chunks of few rows that are there at once go on as one batch: a source that is ahead must not be
    slowed down by how little it gives at a time. With `linger_s`, they wait so long for more.
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
    """How long nothing came, and nothing was made that would come."""
    _arrivals: Arrivals = field(init=False)
    _worked_s: Callable[[], float] = field(init=False)
    lags: Callable[[], Mapping[Split, int]] = field(init=False)
    """How many records there are of splits that the reading has not given."""
    number: int = 0
    """Which of the plan's sources it is."""
    _splits: dict[Split, Progress] = field(default_factory=dict)
    """How far each split has been read."""
    _triggers: deque[int] = field(default_factory=deque)
    """The checkpoints whose barrier is to be sent."""
    _halted: bool = False
    _kept: list[pl.DataFrame] = field(default_factory=list)
    _kept_rows: int = 0
    _since: float | None = None
    """How long the first of the rows that are kept has been waiting."""

    def __post_init__(self, reading: Reading) -> None:
        self._arrivals = Arrivals(reading)
        self._worked_s = reading.worked_s
        self.lags = reading.lags

    def assign(self, splits: Sequence[tuple[Split, Progress]], *, last: bool) -> None:
        """Read these too; `last`: no more come."""
        self._splits.update(splits)
        going_on = [(split, progress) for split, progress in splits if not progress.ended]
        self.timing.watermarks.assign({s: p.at_us for s, p in going_on}, last=last)
        self._arrivals.assign([(split, p.position) for split, p in going_on], last=last)

    def hold(self, until_us: int) -> None:
        """Let splits wait that have come further than this."""
        self.timing.hold(until_us)
        self._arrivals.wake()

    def stop(self) -> None:
        """Read no more, and end."""
        self._arrivals.stop()

    def halt(self) -> None:
        """Read no more, and do not end either: a checkpoint is to come."""
        self._halted = True
        self._arrivals.wake()

    def trigger(self, checkpoint: int) -> None:
        """Send the barrier of a checkpoint behind what was read."""
        self._triggers.append(checkpoint)
        self._arrivals.wake()

    @property
    def splits(self) -> dict[Split, Progress]:
        """How far each split has been read: what has gone on, and nothing else."""
        times = self.timing.watermarks.times
        return {s: replace(p, at_us=times.get(s, p.at_us)) for s, p in self._splits.items()}

    @property
    def progress(self) -> Mapping[Split, Progress]:
        """The same but for their watermarks, as it is just now."""
        return self._splits

    async def pump(self) -> None:
        """Read to the end, or until somebody asks to stop; then say that nothing comes any more."""
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
        """Say how far time has come, unless the rows that say it are still kept."""
        self.timing.mind(now)
        if self._arrivals.assigned and not self._kept:
            for news in self.timing.watermarks.news():
                await self.flow.mark(news)

    async def _take(self, now: float) -> bool:
        """Keep the rows that came; whether anything did."""
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
            # A chunk of neither only says how far the split is: it may be idle all the same.
            self.timing.watermarks.came(chunk.split, at_us)
        self._count(chunk)

    def _count(self, chunk: Chunk) -> None:
        """The split has been read so far."""
        before = self._splits[chunk.split]
        rows, bad = before.rows + chunk.frame.height, before.bad + len(chunk.bad)
        self._splits[chunk.split] = replace(before, position=chunk.position, rows=rows, bad=bad)

    async def _time(self, frame: pl.DataFrame) -> int | None:
        """What rows say of the time; a user's function may take long for it."""
        time_of = self.timing.time_of
        rows = frame.height if time_of.calls_user else 0
        return await self.flow.bench.run(rows, partial(time_of.read, frame))

    def _numbered(self, chunk: Chunk) -> pl.DataFrame:
        """The rows, with their number among all rows where a step goes by their order."""
        if not self.source.outputs[0].ordered:
            return chunk.frame
        return taken.numbered(self.number, chunk, self._splits[chunk.split].rows)

    def _until(self) -> float | None:
        """How long to wait for what comes."""
        kept = None if self._since is None else self._since + self.bounds.linger_s
        return min((at for at in (kept, self.timing.again_at()) if at is not None), default=None)

    def _is_due(self, now: float, came: bool) -> bool:
        """Whether the rows that are kept have waited for more, or are enough."""
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
