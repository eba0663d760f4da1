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
from headrace.core.telling import build_failure

_FAILURE_PREFIX = "headrace failed: "
_FAILURE_PATTERN = re.compile(re.escape(_FAILURE_PREFIX) + r"(\{.*\})")


class ExecutorFailure(Exception):
    """A failure in an executor, encoded in the exception's text."""

    def __init__(self, failed: Failure) -> None:
        super().__init__(_FAILURE_PREFIX + orjson.dumps(asdict(failed)).decode())


@contextmanager
def encode_failures(part: str) -> Iterator[None]:
    """Raise exceptions inside the `with` as failures: of this part, unless they name another."""
    try:
        yield
    except Exception as error:
        raise ExecutorFailure(build_failure(error, part)) from None


def decode_failure(error: BaseException) -> Failure | None:
    """Decode an executor's failure from an exception of Spark, if there is one."""
    found = _FAILURE_PATTERN.search(str(error))
    return Failure(**orjson.loads(found[1])) if found else None
