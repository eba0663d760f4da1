"""The task of a subtask whose first step is a lookup: rows wait for answers while more arrive.

Rows and control elements wait in a queue. The keys of rows are requested on arrival; in ordered
mode, the head of the queue is emitted once all its keys are answered. In unordered mode, all rows
before the next control element are emitted as they are answered. A control element is emitted after
all rows before it. After a barrier or the end, no input is taken until that element is emitted:
therefore a checkpoint covers exactly the rows before its barrier, with none of their calls in
flight.

This task alone emits rows, so backpressure blocks only it; calls continue meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.blame import blamed
from headrace.core.elements import Barrier, Batch, Element, End, Mark, Watermark
from headrace.core.gate import Gate
from headrace.core.lookup.answers import ERROR, whole
from headrace.core.lookup.asked import Asked, Question
from headrace.core.lookup.stage import Stage, taken
from headrace.core.operators.operator import Chain
from headrace.core.task import Flow, Foot
from headrace.core.waiting import Waiting

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class Rows:
    """Queued rows, and the index of each row's key in the request."""

    frame: pl.DataFrame
    ids: pl.Series
    question: Question

    @property
    def answered(self) -> bool:
        """Whether all keys of the request are answered."""
        return not self.question.left


@dataclass(frozen=True, slots=True)
class Aside:
    """Rows that are not looked up, because an operator before the lookup failed on them."""

    stream: str
    frame: pl.DataFrame


InLine: TypeAlias = "Rows | Aside | Mark"


@dataclass(slots=True)
class Gathered(Foot):
    """Collects the output of the operators before a lookup."""

    frames: list[tuple[str, pl.DataFrame]] = field(default_factory=list)

    async def rows(self, stream: str, frame: pl.DataFrame) -> None:
        """Collect rows of a stream."""
        self.frames.append((stream, frame))


@dataclass(slots=True)
class Relay:
    """Runs a lookup between a gate and the operators; `before` are the ones before the lookup."""

    gate: Gate
    stage: Stage
    asked: Asked
    flow: Flow
    before: Chain | None = None
    most_rows: int = 8192
    """The largest number of queued rows, unless one batch has more."""
    rows: int = 0
    idle: Waiting = field(default_factory=Waiting)
    """The time in which the queue was empty and no element arrived."""
    _gathered: Gathered = field(default_factory=lambda: Gathered({}, None))
    _first: Flow = field(init=False)
    """Runs the operators before the lookup."""
    _line: deque[InLine] = field(default_factory=deque)
    _holds: bool = False
    """Whether a barrier or the end is queued: no input is taken after it."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._first = Flow(self.before, self._gathered, self.flow.bench)

    async def run(self) -> None:
        """Process all elements, from the first to the end."""
        with self.flow.life:
            fetching: asyncio.Task[tuple[int, Element]] | None = None
            try:
                while True:
                    if fetching is None and self._has_room():
                        fetching = asyncio.create_task(self.gate.get())
                        fetching.add_done_callback(lambda _: self._changed.set())
                    await self._change()
                    if fetching is not None and fetching.done():
                        _, element = fetching.result()
                        fetching = None
                        await self._take(element)
                    if await self._put_out():
                        return
            finally:
                if fetching is not None:
                    fetching.cancel()
                    await asyncio.gather(fetching, return_exceptions=True)

    async def _change(self) -> None:
        """Wait until an element arrives, an answer arrives, or an element is emitted."""
        with nullcontext() if self._line or self._changed.is_set() else self.idle:
            await self._changed.wait()
        self._changed.clear()

    def _has_room(self) -> bool:
        return not self._holds and self.rows < self.most_rows

    async def _take(self, element: Element) -> None:
        """Queue an element, and request the keys of its rows."""
        if not isinstance(element, Batch):
            self._holds = isinstance(element, Barrier | End)
            last = self._line[-1] if self._line else None
            if isinstance(element, Watermark) and isinstance(last, Watermark):
                self._line.pop()  # superseded: there are no rows between the two watermarks
            self._line.append(element)
            return
        self.flow.rows_in += element.rows
        await self._first.rows(self.stage.reads, element.frame)
        buffered, self._gathered.frames = self._gathered.frames, []
        for name, frame in buffered:
            if name == self.stage.reads:
                await self._ask(frame)
            else:
                self._line.append(Aside(name, frame))
        self._changed.set()

    async def _ask(self, frame: pl.DataFrame) -> None:
        with blamed(self.stage.step):
            keys = await self.flow.bench.run(frame.height, lambda: self.stage.keys(frame))
            request = self.asked.ask(keys.keys)
        request.changed = self._changed.set
        self.rows += frame.height
        self._line.append(Rows(frame, keys.ids, request))
        self._changed.set()

    async def _put_out(self) -> bool:
        """Emit everything that can be emitted now; return whether that included the end."""
        while self._line:
            head = self._line[0]
            match head:
                case Rows():
                    if not head.answered:
                        await self._refused(head)
                        break
                    self._line.popleft()
                    await self._whole(head)
                case Aside(stream, frame):
                    self._line.popleft()
                    await self.flow.side(stream, frame)
                case _:
                    self._line.popleft()
                    self._holds = False
                    self._changed.set()
                    await self.flow.mark(head)
                    if isinstance(head, End):
                        return True
        if not self.stage.lookup.ordered:
            await self._pieces()
        return False

    async def _refused(self, rows: Rows) -> None:
        """Fail at once if a call failed for good and failed rows end the job.

        There may be many calls for the other keys of these rows; they are not awaited.
        """
        if rows.question.error is None or not self.stage.fails:
            return
        for indices, answers in rows.question.parts:
            if answers[ERROR].null_count() < answers.height:
                mask, at = taken(rows.frame, rows.ids, indices, rows.question.keys)
                await self._go_on(rows.frame.filter(mask), answers[at], rows.question)

    async def _whole(self, rows: Rows) -> None:
        """Emit the remaining rows of a batch whose keys are all answered."""
        self.rows -= rows.frame.height
        self._changed.set()
        if not rows.frame.height:
            return
        import polars as pl

        request, answers = rows.question, self.stage.nothing
        if request.parts:  # else no row has a key
            answers = whole(request.keys, request.parts)
        await self._go_on(rows.frame, answers.select(pl.all().gather(rows.ids)), request)

    async def _pieces(self) -> None:
        """Emit the answered rows before the next control element, even if others still wait."""
        for rows in list(self._line):
            if not isinstance(rows, Rows):
                return
            parts, rows.question.parts = rows.question.parts, []
            for indices, answers in parts:
                mask, at = taken(rows.frame, rows.ids, indices, rows.question.keys)
                frame = rows.frame.filter(mask)
                rows.frame, rows.ids = rows.frame.filter(~mask), rows.ids.filter(~mask)
                self.rows -= frame.height
                await self._go_on(frame, answers[at], rows.question)

    async def _go_on(self, frame: pl.DataFrame, answers: pl.DataFrame, request: Question) -> None:
        with blamed(self.stage.step):
            outputs = await self.flow.bench.run(
                frame.height, lambda: list(self.stage.rows(frame, answers, request.error))
            )
        for stream, out in outputs:
            if stream == self.stage.leaves:
                await self.flow.onward(stream, out)
            else:
                await self.flow.side(stream, out)
