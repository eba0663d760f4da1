"""What goes wrong in an executor, on its way to whoever is told.

Spark hands on an exception of Python as text. So a failure is put into that text, and found there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

import orjson

from headrace.core.messages import Failure
from headrace.core.telling import failure

_MARK = "headrace failed: "
_FAILED = re.compile(re.escape(_MARK) + r"(\{.*\})")


class FailedInside(Exception):
    """A failure, in an executor."""

    def __init__(self, failed: Failure) -> None:
        super().__init__(_MARK + orjson.dumps(asdict(failed)).decode())


@contextmanager
def told(part: str) -> Iterator[None]:
    """What goes wrong inside is told as a failure: of that part, unless it is known of which."""
    try:
        yield
    except Exception as error:
        raise FailedInside(failure(error, part)) from None


def failure_in(error: BaseException) -> Failure | None:
    """The failure of an executor that an exception of Spark tells of, if it does."""
    found = _FAILED.search(str(error))
    return Failure(**orjson.loads(found[1])) if found else None
