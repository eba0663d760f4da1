"""Transport of failures from executors to the driver.

Spark passes a Python exception on as text. So a failure is encoded in that text, and decoded from
it.
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
    """A failure in an executor, encoded in the exception's text."""

    def __init__(self, failed: Failure) -> None:
        super().__init__(_MARK + orjson.dumps(asdict(failed)).decode())


@contextmanager
def told(part: str) -> Iterator[None]:
    """Raise exceptions inside the `with` as failures: of this part, unless they name another."""
    try:
        yield
    except Exception as error:
        raise FailedInside(failure(error, part)) from None


def failure_in(error: BaseException) -> Failure | None:
    """Decode an executor's failure from an exception of Spark, if there is one."""
    found = _FAILED.search(str(error))
    return Failure(**orjson.loads(found[1])) if found else None
