"""Calls into libraries that wait by themselves, and may wait for ever: each in a thread of its own.

Whoever waits for one may be cancelled. Then the library is told to break off, if it can be, and the
thread is left to itself: it keeps no process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from headrace.core.bench import Bench

T = TypeVar("T")


async def in_thread(bench: Bench, work: Callable[[], T], break_off: Callable[[], None]) -> T:
    """The result of work; without an executor it is done here and now, as a simulation wants."""
    if bench.executor is None:
        return work()
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def carry() -> None:
        try:
            result = work()
        except BaseException as error:
            told = error
            tell(lambda: done.set_exception(told))
        else:
            tell(lambda: done.set_result(result))

    def tell(what: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(lambda: None if done.done() else what())

    threading.Thread(target=carry, name="lookup", daemon=True).start()
    try:
        return await done
    except asyncio.CancelledError:
        # To break off may itself wait for the other side.
        threading.Thread(target=break_off, name="lookup", daemon=True).start()
        raise
