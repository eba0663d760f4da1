"""The life of a subtask whose first step looks rows up: rows wait here, and others come meanwhile.

What has come is a line of rows and marks. Rows are asked for when they come; the head of the line
goes out when it is answered, in the order in which it came. Without order, all rows before the next
mark go out as they are answered. A mark goes out behind all rows before it. Behind a barrier, or
the end, nothing is taken before that is out: so whatever a checkpoint counts and freezes belongs to
it, and no call of rows before it is on its way.

Rows are put out by this task alone, so whoever reads them may make it wait; calls go on meanwhile.
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
    """Rows in the line, and which key each of them has."""

    frame: pl.DataFrame
    ids: pl.Series
    question: Question

    @property
    def answered(self) -> bool:
        """Whether all of its keys are."""
        return not self.question.left


@dataclass(frozen=True, slots=True)
class Aside:
    """Rows that are not looked up: those on which an operator before that failed."""

    stream: str
    frame: pl.DataFrame


InLine: TypeAlias = "Rows | Aside | Mark"


@dataclass(slots=True)
class Gathered(Foot):
    """Keeps what leaves the operators before a lookup."""

    frames: list[tuple[str, pl.DataFrame]] = field(default_factory=list)

    async def rows(self, stream: str, frame: pl.DataFrame) -> None:
        """Keep rows of a stream."""
        self.frames.append((stream, frame))


@dataclass(slots=True)
class Relay:
    """Between the gate of a subtask and its operators; `before` are those before the lookup."""

    gate: Gate
    stage: Stage
    asked: Asked
    flow: Flow
    before: Chain | None = None
    most_rows: int = 8192
    """So many rows wait at most, or one batch."""
    rows: int = 0
    idle: Waiting = field(default_factory=Waiting)
    """How long nothing came, and no row waited for an answer."""
    _gathered: Gathered = field(default_factory=lambda: Gathered({}, None))
    _first: Flow = field(init=False)
    """What rows go through before they are looked up."""
    _line: deque[InLine] = field(default_factory=deque)
    _holds: bool = False
    """Whether a barrier or the end is in the line: nothing is taken behind it."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._first = Flow(self.before, self._gathered, self.flow.bench)

    async def run(self) -> None:
        """From the first element to the end."""
        with self.flow.life:
            getting: asyncio.Task[tuple[int, Element]] | None = None
            try:
                while True:
                    if getting is None and self._has_room():
                        getting = asyncio.create_task(self.gate.get())
                        getting.add_done_callback(lambda _: self._changed.set())
                    await self._change()
                    if getting is not None and getting.done():
                        _, element = getting.result()
                        getting = None
                        await self._take(element)
                    if await self._put_out():
                        return
            finally:
                if getting is not None:
                    getting.cancel()
                    await asyncio.gather(getting, return_exceptions=True)

    async def _change(self) -> None:
        """Wait until something has come, been answered, or gone out."""
        with nullcontext() if self._line or self._changed.is_set() else self.idle:
            await self._changed.wait()
        self._changed.clear()

    def _has_room(self) -> bool:
        return not self._holds and self.rows < self.most_rows

    async def _take(self, element: Element) -> None:
        """Put what has come into the line, and ask for its keys."""
        if not isinstance(element, Batch):
            self._holds = isinstance(element, Barrier | End)
            last = self._line[-1] if self._line else None
            if isinstance(element, Watermark) and isinstance(last, Watermark):
                self._line.pop()  # time has come further, and no row stands between
            self._line.append(element)
            return
        self.flow.rows_in += element.rows
        await self._first.rows(self.stage.reads, element.frame)
        gathered, self._gathered.frames = self._gathered.frames, []
        for name, frame in gathered:
            if name == self.stage.reads:
                await self._ask(frame)
            else:
                self._line.append(Aside(name, frame))
        self._changed.set()

    async def _ask(self, frame: pl.DataFrame) -> None:
        with blamed(self.stage.step):
            keys = await self.flow.bench.run(frame.height, lambda: self.stage.keys(frame))
            question = self.asked.ask(keys.keys)
        question.changed = self._changed.set
        self.rows += frame.height
        self._line.append(Rows(frame, keys.ids, question))
        self._changed.set()

    async def _put_out(self) -> bool:
        """All that may go out now; whether that was the end."""
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
        """Fail of a call that was given up, where rows that fail end the job: nobody waits for the
        calls for their other keys, of which there may be many."""
        if rows.question.error is None or not self.stage.fails:
            return
        for which, answers in rows.question.parts:
            if answers[ERROR].null_count() < answers.height:
                mine, at = taken(rows.frame, rows.ids, which, rows.question.keys)
                await self._go_on(rows.frame.filter(mine), answers[at], rows.question)

    async def _whole(self, rows: Rows) -> None:
        """Rows all of which are answered, or as many as are left of them."""
        self.rows -= rows.frame.height
        self._changed.set()
        if not rows.frame.height:
            return
        import polars as pl

        question, answers = rows.question, self.stage.nothing
        if question.parts:  # else no row has a key
            answers = whole(question.keys, question.parts)
        await self._go_on(rows.frame, answers.select(pl.all().gather(rows.ids)), question)

    async def _pieces(self) -> None:
        """The rows before the next mark that are answered, whatever becomes of the others."""
        for rows in list(self._line):
            if not isinstance(rows, Rows):
                return
            parts, rows.question.parts = rows.question.parts, []
            for which, answers in parts:
                mine, at = taken(rows.frame, rows.ids, which, rows.question.keys)
                frame = rows.frame.filter(mine)
                rows.frame, rows.ids = rows.frame.filter(~mine), rows.ids.filter(~mine)
                self.rows -= frame.height
                await self._go_on(frame, answers[at], rows.question)

    async def _go_on(self, frame: pl.DataFrame, answers: pl.DataFrame, question: Question) -> None:
        with blamed(self.stage.step):
            outputs = await self.flow.bench.run(
                frame.height, lambda: list(self.stage.rows(frame, answers, question.error))
            )
        for stream, out in outputs:
            if stream == self.stage.leaves:
                await self.flow.onward(stream, out)
            else:
                await self.flow.side(stream, out)
