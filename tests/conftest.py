"""The order of the tests, and the tests that need a Kafka broker or Spark.

When processes share the tests, each takes a whole file at a time, so that module fixtures are made
once; and one of them takes all files of a folder of TOGETHER. Slow files come first, so that at the
end no process works alone.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.support.cli.command_line import headrace

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

# The time of an example depends on how busy the machine is.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")

__all__ = ["headrace"]

HERE = Path(__file__).parent
LONGEST = (
    "core/spark",
    "connectors/kafka",
    "core/operators/test_snapshots.py",
    "recovery",
    "nexmark",
    "cli",
    "docs",
    "core/operators",
    "core/plan/sql",
    "state",
    "tpch",
    "test_layout.py",
    "test_names.py",
)
TOGETHER = ("tests/core/spark", "tests/connectors/kafka")
"""Folders whose tests share what takes long to start: a session of Spark, brokers."""
BROKERS = {"broker", "secured"}
MAX_SHOWN = 4000
"""The number of characters shown of a failure when it comes; all of it is shown at the end."""


# `nohup` and some shells ignore signals that tests send, and processes inherit that.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGTERM, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _handler)


def start_polars_with_one_thread() -> None:
    """Start Polars with one thread in this process, and in none that tests start.

    Threads of Polars look for more work before they sleep. Over the few rows of a test that takes a
    tenth of the processor time, and other processes of the tests have work for the cores.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("POLARS_MAX_THREADS", "1")
        import polars

        assert polars.thread_pool_size() == 1


@pytest.fixture(autouse=True, scope="session")
def _nobody_waits_for_the_disk() -> Iterator[None]:
    """Skip syncing to disk: written files are visible at once; only a power failure would differ.

    That is tested with a disk that loses data (`state/storage/memory_disk.py`). Processes do sync.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True)
def _process_is_as_it_was() -> Iterator[None]:
    """Fail a test that leaves a signal handler or another working folder: later tests would see it.

    SIGINT is exempt: polars and pyspark put hooks on it.
    """
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    folder = os.getcwd()
    yield
    assert [signal.getsignal(number) for number in numbers] == before
    assert os.getcwd() == folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not BROKERS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("kafka")
            item.add_marker("slow")
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
    items.sort(key=lambda item: find_turn(item.path))


@cache
def find_turn(file: Path) -> int:
    """Return the position of a file among the slow files, or the last one."""
    path = file.relative_to(HERE)
    return next((n for n, name in enumerate(LONGEST) if path.is_relative_to(name)), len(LONGEST))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector off what is collected, which stays to the end.

    To search that for garbage would take a third of the time of collection, and time again and
    again while tests run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()


class FailureDisplay:
    """Shows each failure as it comes: a run that breaks off would not show any."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED {report.nodeid} ({report.when})")
            self._terminal.write_line(report.longreprtext[-MAX_SHOWN:])


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if terminal is not None and config.getoption("numprocesses", None):
        config.pluginmanager.register(FailureDisplay(terminal))
    if "PYTEST_XDIST_WORKER" in os.environ:
        start_polars_with_one_thread()


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, object, object]:
    """Make a report one that can be sent: without lone surrogates, and of plain types."""
    return make_sendable((yield))


def make_sendable(value: object) -> object:
    match value:
        case None | bool():
            return value
        case int():
            return int(value)
        case float():
            return float(value)
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {make_sendable(key): make_sendable(item) for key, item in value.items()}
        case list():
            return [*map(make_sendable, value)]
        case tuple():
            return (*map(make_sendable, value),)
    return repr(value)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    from xdist.scheduler import LoadFileScheduling

    class FolderScheduling(LoadFileScheduling):  # type: ignore[misc]
        """Schedules whole files, and all files of some folders as one."""

        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            folders = (folder for folder in TOGETHER if file.startswith(f"{folder}/"))
            return next(folders, file)

    return FolderScheduling(config, log) if config.getvalue("dist") == "loadfile" else None
