"""Attribution of exceptions to parts of a pipeline, recorded as an attribute of the exception.

Several parts run in one task, so the task does not identify the part. The innermost attribution
wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PART_ATTRIBUTE = "headrace_part"


@contextmanager
def attribute_errors_to(part: str) -> Iterator[None]:
    """Attribute exceptions in this context to the part, unless they are attributed already."""
    try:
        yield
    except BaseException as error:
        if get_failed_part(error) is None:
            with suppress(Exception):  # a class may forbid it
                setattr(error, _PART_ATTRIBUTE, part)
        raise


def get_failed_part(error: BaseException) -> str | None:
    """Return the part that the exception is attributed to, if any."""
    try:
        found: object = getattr(error, _PART_ATTRIBUTE, None)
    except Exception:  # a class may compute its attributes
        return None
    return found if isinstance(found, str) else None
