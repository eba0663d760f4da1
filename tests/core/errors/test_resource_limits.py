"""Exceptions of a system that has run out of something, whoever raises them."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from headrace.core.api.failures import build_failure
from headrace.core.errors.resource_limits import (
    DISK_SPACE,
    FILE_SIZE,
    MEMORY,
    OPEN_FILES,
    THREADS,
    ResourceShortage,
    find_shortage,
)

PANIC = """
import os, resource
import polars as pl
from headrace.core.errors.resource_limits import OPEN_FILES, find_shortage
resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
try:
    while True:
        os.open("/dev/null", 0)
except OSError:
    pass
try:
    pl.DataFrame({"a": [2, 1]}).select(pl.col("a") + 1)
except BaseException as error:
    assert not isinstance(error, Exception), error
    assert find_shortage(error) == OPEN_FILES, error
else:
    raise AssertionError
"""


@pytest.mark.parametrize(
    ("error", "shortage"),
    [
        (MemoryError(), MEMORY),
        (OSError(errno.ENOMEM, "cannot allocate memory"), MEMORY),
        (OSError(errno.EMFILE, "too many open files"), OPEN_FILES),
        (OSError(errno.ENOSPC, "no space left on device"), DISK_SPACE),
        (OSError(errno.EFBIG, "file too large"), FILE_SIZE),
        (RuntimeError("can't start new thread"), THREADS),
        (ImportError("x.so: failed to map segment from shared object"), MEMORY),
        (Exception("IO error: Too many open files: While open a file"), OPEN_FILES),
        (ExceptionGroup("several", [ValueError("x"), MemoryError()]), MEMORY),
        (Exception('ThreadPoolBuildError { kind: IOError(Os { code: 11, kind: "x" }) }'), THREADS),
        (Exception("IO error: resource temporarily unavailable (os error 11)"), None),
        (OSError(errno.EACCES, "permission denied"), None),
        (ValueError("the text of a row: no space left on device"), None),
        (KeyError("a"), None),
    ],
)
def test_what_a_process_has_run_out_of(error: Exception, shortage: ResourceShortage | None) -> None:
    assert find_shortage(error) == shortage
    try:
        try:
            raise error
        except Exception as cause:
            raise KeyError("consequence") from cause
    except KeyError as consequence:
        assert find_shortage(consequence) == shortage
    failure = build_failure(error, "totals")
    assert bool(failure.traceback) == (shortage is None)
    if shortage:
        assert (failure.message, failure.hint) == (shortage.message, shortage.hint)
        assert failure.is_transient, "restarts as settings.restart says"


def test_what_was_handled_before_an_error_is_not_its_cause() -> None:
    try:
        try:
            raise OSError(errno.ENOSPC, "no space left on device")
        except OSError:
            raise KeyError("a fault of its own") from None
    except KeyError as error:
        assert find_shortage(error) is None


def test_a_panic_of_polars_is_understood() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PANIC], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
