"""The limits of this process, checked before anything runs: a line for the user, and no panic.

Polars and RocksDB end the process, or print a panic, where they get no memory, thread or open file.
So what they need is tried at the start, while nothing else runs: Polars starts its threads, and
some more are started for RocksDB and for the run itself.
"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.cli.errors import Refusal
from headrace.core.errors.resource_limits import THREADS, find_shortage

MIN_OPEN_FILES, SPARK_OPEN_FILES = 64, 512
MIN_ADDRESS_SPACE, SPARK_ADDRESS_SPACE = 2 << 30, 16 << 30
LOADED_ADDRESS_SPACE = 480 << 20
"""The address space of the libraries that read a pipeline, such as Polars.

With less, Polars prints a warning that its binary is missing, or has no memory for its first call.
"""
ADDRESS_SPACE_PER_CPU = 128 << 20
"""The address space of the threads of a processor, most of which is never used."""
SPARE_THREADS = 24
"""The threads that a run starts, in addition to those of Polars."""
STATUS = 1
POLARS_THREADS = "POLARS_MAX_THREADS"


def limit_polars_threads(count: int) -> None:
    """Let Polars start that many threads, unless the environment says how many.

    For a few rows one is best: threads that wait for each other take a twentieth of the CPU.
    """
    os.environ.setdefault(POLARS_THREADS, str(count))


def check_process_limits(*, spark: bool = False) -> None:
    """Check that the process may use what a run needs, and start Polars. Raises Refusal.

    `spark`: it starts Java as well, which needs more.
    """
    check_system_limits(spark=spark)
    start_polars()


def check_system_limits(*, spark: bool = False) -> None:
    """Check that the process may use what a run needs. Raises Refusal."""
    _check_open_files(SPARK_OPEN_FILES if spark else MIN_OPEN_FILES)
    per_cpu = ADDRESS_SPACE_PER_CPU * max(0, (os.cpu_count() or 1) - 2)
    _check_address_space((SPARK_ADDRESS_SPACE if spark else MIN_ADDRESS_SPACE) + per_cpu)
    _check_threads()


def check_loading_limits() -> None:
    """Check that the process can load Polars, before anything imports it. Raises Refusal."""
    _check_address_space(LOADED_ADDRESS_SPACE)


def _check_open_files(needed: int) -> None:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= limit < needed:
        message = f"this process may have {limit} open files, and needs {needed} or more"
        raise Refusal(message, "ulimit -n 4096 allows more", STATUS)


def _check_address_space(needed: int) -> None:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if 0 <= limit < needed:
        message = f"this process may have {limit >> 20} MiB of address space, and needs"
        hint = "ulimit -v unlimited; a container's limit counts only the memory that is used"
        raise Refusal(f"{message} {needed >> 20} MiB or more", hint, STATUS)


def _check_threads() -> None:
    """Start as many threads as a run may need, all at once, and end them."""
    over, started = threading.Event(), list[threading.Thread]()
    try:
        for _ in range(SPARE_THREADS):
            thread = threading.Thread(target=over.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError:
        message = f"only {len(started)} more threads can be started, and a run needs more"
        raise Refusal(message, THREADS.hint, STATUS) from None
    finally:
        over.set()
        for thread in started:
            thread.join()


def start_polars() -> None:
    """Import Polars, and start its threads, which need files as well. Raises Refusal."""
    try:
        with _silence_panics():
            import polars as pl

            pl.LazyFrame({"a": [1]}).select(pl.col("a") + 1).collect()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic is no Exception
        shortage = find_shortage(error)
        if shortage is None:
            raise
        raise Refusal(f"cannot start: {shortage.message}", shortage.hint, STATUS) from None


@contextmanager
def _silence_panics() -> Iterator[None]:
    """Send what Rust prints of a panic nowhere; it is also in the exception."""
    shown = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(shown, 2)
        os.close(nowhere)
        os.close(shown)
