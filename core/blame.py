"""Which part of a pipeline an exception came from, written on the exception where that is known.

Parts run as one task, so the task alone does not say it. The innermost part that is named stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_ATTRIBUTE = "headrace_part"


@contextmanager
def blamed(part: str) -> Iterator[None]:
    """What goes wrong inside is this part's, unless it is known to be another's."""
    try:
        yield
    except BaseException as error:
        if part_of(error) is None:
            setattr(error, _ATTRIBUTE, part)
        raise


def part_of(error: BaseException) -> str | None:
    """The part that an exception came from, if anybody said so."""
    found: str | None = getattr(error, _ATTRIBUTE, None)
    return found
