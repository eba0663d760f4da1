"""Client libraries of tables: optional packages, imported when needed and called in threads.

A call may block for ever, so each has a thread of its own. The awaiting task may be cancelled. The
library is then requested to cancel its call, if it can, and the thread is abandoned: as a daemon,
it does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import TypeVar

from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor


def import_extra(module: str, user: str, package: str, extra: str) -> ModuleType:
    """Import a module. Raises ConnectorError, with the command that installs it.

    `user` is the connector that needs the module, for the message.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        hint = f'pip install "headrace[{extra}]"'
        message = f"{user} needs {package}, which is not installed"
        raise ConnectorError(message, hint, exit_status=2, final=True) from None


T = TypeVar("T")


async def run_in_thread(
    kernel_executor: KernelExecutor, work: Callable[[], T], break_off: Callable[[], None]
) -> T:
    """Run work in a thread; without an executor, as in simulations, run it in place."""
    if kernel_executor.executor is None:
        return work()
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def carry() -> None:
        try:
            result = work()
        except BaseException as error:
            failure = error
            report(lambda: done.set_exception(failure))
        else:
            report(lambda: done.set_result(result))

    def report(settle: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nothing awaits the result
            loop.call_soon_threadsafe(lambda: None if done.done() else settle())

    threading.Thread(target=carry, name="database", daemon=True).start()
    try:
        return await done
    except asyncio.CancelledError:
        # Cancelling may itself block on the server.
        threading.Thread(target=break_off, name="database", daemon=True).start()
        raise
