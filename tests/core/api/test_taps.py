"""Samples of taps between processes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from decimal import Decimal

import polars as pl
import pytest

from headrace.core.api.taps import TapError, TapRequest, TapSample

LONGEST_S = 120.0
REQUEST = TapRequest("rows", "x > 1")

BUSY_THREADS = """\
import pickle, threading
import polars as pl
from headrace.core.api.taps import TapRequest, TapSample

one = pl.DataFrame({"x": range(20), "text": ["a" * 30] * 20})
rows = pl.concat([one, one], rechunk=False)
started, ends = threading.Semaphore(0), threading.Event()

def wait(column):
    started.release()
    ends.wait()
    return column

def compute():
    both = (pl.col("x").map_batches(wait, return_dtype=pl.Int64).alias(name) for name in "ab")
    pl.DataFrame({"x": range(1000)}).select(*both)

threads = [threading.Thread(target=compute) for _ in range(pl.thread_pool_size())]
for each in threads:
    each.start()
for _ in threads:
    started.acquire()
threading.Timer(0.05, ends.set).start()
for _ in range(20):
    pickle.dumps(TapSample(TapRequest("rows"), rows, 0))
for each in threads:
    each.join()
"""
"""Pickles a sample while functions of Python have all threads of Polars."""


@pytest.mark.parametrize("count", [0, 3])
def test_a_sample_is_the_same_in_another_process(count: int) -> None:
    rows = pl.DataFrame(
        {"x": [1, None, 3], "price": [Decimal("1.20"), None, Decimal(2)], "all": [["a"], [], None]},
        schema={"x": pl.Int64, "price": pl.Decimal(38, 2), "all": pl.List(pl.String)},
    ).head(count)
    read = pickle.loads(pickle.dumps(TapSample(REQUEST, rows, 7)))
    assert (read.request, read.dropped, read.rejection) == (REQUEST, 7, None)
    assert read.rows.equals(rows)
    assert read.rows.schema == rows.schema


def test_an_error_is_the_same_in_another_process() -> None:
    read = pickle.loads(pickle.dumps(TapSample(REQUEST, None, 0, TapError("a", "b", "c"))))
    assert read.rows is None
    assert (read.rejection.code, read.rejection.message, read.rejection.hint) == ("a", "b", "c")


def test_a_sample_is_pickled_while_functions_hold_all_threads_of_polars() -> None:
    """Polars' own pickles would wait for these threads, and these for the interpreter's lock."""
    subprocess.run([sys.executable, "-c", BUSY_THREADS], check=True, timeout=LONGEST_S)
