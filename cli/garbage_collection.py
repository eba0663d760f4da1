"""Garbage collection of this process, which finds nothing during the start of a command."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def suspend_garbage_collection() -> Iterator[None]:
    """Suspend garbage collection during start-up, where it takes a fifth of the time in vain.

    What is there afterwards stays until the process ends, so no later collection looks at it.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
