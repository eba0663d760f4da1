"""What a user is told of an exception: a line of theirs and the world's, all of ours."""

from __future__ import annotations

import traceback

from headrace.core.blame import part_of
from headrace.core.contracts import ConnectorError
from headrace.core.messages import Failure
from headrace.core.snapshots import SnapshotError
from headrace.core.user_code import UserCodeError


def refusal(error: ConnectorError | SnapshotError) -> str:
    """What was refused before anything was read, and which part of the pipeline it is of.

    >>> from headrace.core.blame import blamed
    >>> try:
    ...     with blamed("bids"):
    ...         raise ConnectorError("there is no topic")
    ... except ConnectorError as error:
    ...     refusal(error)
    'bids: there is no topic'
    """
    part = part_of(error)
    named = part is None or error.message.startswith(f"{part}: ")
    return error.message if named else f"{part}: {error.message}"


def raised(error: BaseException) -> str:
    """The line that the first of the exceptions behind this one came from, and its type.

    >>> try:
    ...     {}["a"]
    ... except KeyError as error:
    ...     raised(error)
    'KeyError at <doctest headrace.core.telling.raised[0]>:2'
    """
    while error.__cause__ is not None:
        error = error.__cause__
    frames = [*traceback.walk_tb(error.__traceback__)]
    at = "".join(f" at {frame.f_code.co_filename}:{line}" for frame, line in frames[-1:])
    return f"{type(error).__name__}{at}"


def failure(error: BaseException, *parts: str) -> Failure:
    """The failure that an exception is. Of `parts` it came, unless it is known of which."""
    where = part_of(error) or " > ".join(parts)
    match error:
        case SnapshotError():
            return Failure(error.message, where, hint=error.hint, may_pass=True)
        case ConnectorError():
            may_pass = error.split is None and not error.final
            place = error.split, error.position
            return Failure(
                error.message, where, *place, error.hint, may_pass=may_pass, final=error.final
            )
        case UserCodeError():
            return Failure(error.message, where, hint=error.hint, raised=raised(error))
    trace = "".join(traceback.format_exception(error))
    # What is said of it may differ each time, as by the number of a task of Polars. Of the system's
    # errors the line says little: they may pass.
    at = "" if isinstance(error, OSError) else raised(error)
    return Failure(f"{type(error).__name__}: {error}", where, defect=trace, raised=at)
