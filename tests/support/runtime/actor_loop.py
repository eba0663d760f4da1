"""Several processes in one simulated loop: each is killed, stopped and continued by itself.

Whatever a process does runs in a context that names it. A process that is killed takes no further
step: what waits for its turn is set aside, and no `finally` of it runs, as after SIGKILL. At the
very end `bury` lets all that was set aside run out, when nobody looks at its effects any more.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio.events import Handle
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, Literal
from weakref import WeakSet

from headrace.core.testing.simulated_loop import SimulatedLoop

SLOWNESS = 0.2
"""How often a process that could run does not get its turn."""


@dataclass(eq=False)
class Actor:
    """A process of the simulation."""

    name: str
    state: Literal["running", "stopped", "gone", "buried"] = "running"
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: WeakSet[asyncio.Task[Any]] = field(default_factory=WeakSet)
    waiting: list[Handle] = field(default_factory=list)
    """What was to run while it could not."""
    on_end: list[Callable[[], None]] = field(default_factory=list)
    left: list[asyncio.Task[Any]] = field(default_factory=list)
    """The tasks that it had when it ended: collected as garbage, they would run on."""

    def list_tasks(self) -> list[str]:
        """Return what runs in it besides the current task."""
        own = [task for task in self.tasks if task is not asyncio.current_task()]
        return sorted(str(task.get_coro()) for task in own if not task.done())


ACTOR: ContextVar[Actor | None] = ContextVar("actor", default=None)


class ActorLoop(SimulatedLoop):
    """A simulated loop of several processes; errors that nobody handles are collected."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.turns = 0
        self.actors: list[Actor] = []
        self.errors: list[str] = []
        self._at_turns: list[tuple[int, int, Callable[[], None]]] = []
        self._is_over = False
        self.set_exception_handler(self._collect_error)

    def start(self, name: str, main: Callable[[Actor], Coroutine[Any, Any, None]]) -> Actor:
        """Start a process; it ends when its main coroutine does."""
        actor = Actor(name)
        self.actors.append(actor)
        context = copy_context()
        context.run(ACTOR.set, actor)
        task = self.create_task(main(actor), context=context)
        task.add_done_callback(lambda task: self._finish(actor, task), context=Context())
        return actor

    def kill(self, actor: Actor) -> None:
        """End a process at once."""
        if actor.state in ("running", "stopped"):
            actor.state = "gone"
            actor.left = [*actor.tasks]
            for each in actor.on_end:
                each()
            actor.ended.set()

    def stop_for(self, actor: Actor, seconds: float) -> None:
        """Give a process no turn for a time."""
        if actor.state == "running":
            actor.state = "stopped"
            self.call_later(seconds, self._go_on, actor, context=Context())

    def at_turn(self, turn: int, do: Callable[[], None]) -> None:
        """Do something before a turn."""
        heapq.heappush(self._at_turns, (turn, len(self._at_turns), do))

    def bury(self) -> None:
        """Let everything end that still runs or waits."""
        self._is_over = True
        for actor in self.actors:
            actor.state = "buried"
            self._ready.extend(actor.waiting)
        self.run_until_complete(_end_all(self))

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Any:
        task = super().create_task(coro, name=name, context=context)
        actor = ACTOR.get() if context is None else context.get(ACTOR)
        if actor is not None:
            actor.tasks.add(task)
        return task

    def _finish(self, actor: Actor, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None and not self._is_over:
            self.errors.append(f"{actor.name}: {task.exception()!r}")
        self.kill(actor)

    def _go_on(self, actor: Actor) -> None:
        if actor.state == "stopped":
            actor.state = "running"
            self._ready.extend(actor.waiting)
            actor.waiting.clear()

    def _collect_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._is_over:
            self.errors.append(f"{context['message']}: {context.get('exception')!r}")

    def _run_once(self) -> None:
        self.turns += 1
        while self._at_turns and self._at_turns[0][0] <= self.turns:
            heapq.heappop(self._at_turns)[2]()
        self._move_due_timers()
        held = self._hold_back()
        if self._ready or not (held or self._scheduled):
            super()._run_once()
        self._ready.extend(held)

    def _move_due_timers(self) -> None:
        """Let time pass, and move timers to what is ready, so that they can be held back too."""
        self._forget_cancelled_timers()
        if self._scheduled and not self._ready:
            self._now = max(self._now, self._scheduled[0].when())
        while self._scheduled and self._scheduled[0].when() < self._now + self._clock_resolution:
            timer: Any = heapq.heappop(self._scheduled)
            timer._scheduled = False
            # A task that finds its timer early, by less than a resolution, would spin.
            self._now = max(self._now, timer.when())
            self._ready.append(timer)

    def _hold_back(self) -> list[Handle]:
        """Set aside what processes cannot run; return what waits for the next turn."""
        running = [actor for actor in self.actors if actor.state == "running"]
        slow = [actor for actor in running if self._random.random() < SLOWNESS]
        held: list[Handle] = []
        for handle in [*self._ready]:
            actor = get_actor(handle)
            if actor is None or actor.state == "buried":
                continue
            if actor.state != "running" or actor in slow:
                self._ready.remove(handle)
                (held if actor in slow else actor.waiting).append(handle)
        return held


def get_actor(handle: Any) -> Actor | None:
    """Return the process that a handle belongs to."""
    actor: Actor | None = handle._context.get(ACTOR)
    return actor


async def _end_all(loop: ActorLoop) -> None:
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=10_000)
