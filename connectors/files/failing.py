"""What the operating system says about a file, as a user is told it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.connectors.files.compression import errors
from headrace.core.contracts import ConnectorError
from headrace.core.messages import Position


@contextmanager
def telling(
    doing: str, split: str | None = None, position: Position = None, exit_status: int = 1
) -> Iterator[None]:
    """Says what could not be done, and why: `cannot read a.json: permission denied`."""
    try:
        yield
    except OSError as error:
        why = (error.strerror or str(error)).lower()
    except Exception as error:
        if not isinstance(error, errors()):
            raise
        why = str(error).lower()
    else:
        return
    raise ConnectorError(
        f"cannot {doing}: {why}", split=split, position=position, exit_status=exit_status
    )


def printable(path: str) -> str:
    """A path as it can be shown: on disk it may be any bytes."""
    return os.fsencode(path).decode("utf-8", "replace")
