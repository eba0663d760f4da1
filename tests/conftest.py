"""The order of the tests, and what of them wants a Kafka broker or Spark.

When processes share them each takes a whole file at a time, so that what a module makes is made
once; and one of them all files of tests/spark, whose session is only good for one. What takes long
begins first: at the end nothing is left that one process alone works at.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")

HERE = Path(__file__).parent
LONGEST = ("spark", "kafka", "runtime/test_freezing.py", "recovery", "nexmark", "cli", "docs")
BROKERS = {"broker", "secured"}


@pytest.fixture(autouse=True, scope="session")
def _nobody_waits_for_the_disk() -> Iterator[None]:
    """What is written is there for whoever looks; only power that goes could show a difference.

    That is held on a disk which forgets (`state/storage/memory_disk.py`). Processes do wait.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True)
def _signals_do_what_they_did() -> Iterator[None]:
    """A test that leaves a handler behind changes what later ones see, of the same process.

    SIGINT is no matter: polars and pyspark put hooks on it.
    """
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not BROKERS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("kafka")
            item.add_marker("slow")
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
    items.sort(key=turn)


def turn(item: pytest.Item) -> int:
    """The place of its file among those that take long, or the last."""
    path = item.path.relative_to(HERE)
    return next((n for n, name in enumerate(LONGEST) if path.is_relative_to(name)), len(LONGEST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    from xdist.scheduler import LoadFileScheduling

    class OneSpark(LoadFileScheduling):  # type: ignore[misc]
        """Whole files, and all of tests/spark as if that were one."""

        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "tests/spark" if file.startswith("tests/spark/") else file

    return OneSpark(config, log) if config.getvalue("dist") == "loadfile" else None
