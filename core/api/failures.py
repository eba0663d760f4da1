"""Errors of connectors, and the failures that are reported to users.

An error of user code or of an external system is reported in one line; an internal error with its
traceback."""

from __future__ import annotations

import traceback

from headrace.core.api.snapshots import SnapshotError
from headrace.core.api.splits import Failure, Position
from headrace.core.api.user_code import UserCodeError, get_text
from headrace.core.errors.attribution import get_failed_part
from headrace.core.errors.resource_limits import find_shortage
from headrace.core.errors.value_errors import ExpressionFailure


class ConnectorError(Exception):
    """An external system failed or refused: what failed, where, and a hint. Not a bug in headrace.

    `exit_status` is 2 if the pipeline names something that does not exist, 3 if existing data
    forbids the run, 1 otherwise. `final`: another attempt would fail in the same way.
    """

    is_worker_lost = False
    """Whether the process of another worker of the job is gone."""

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        split: str | None = None,
        position: Position = None,
        exit_status: int = 1,
        final: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.split = split
        self.position = position
        self.exit_status = exit_status
        self.is_final = final


def format_refusal(error: ConnectorError | SnapshotError) -> str:
    """Return the message of an error raised before anything was read, with the failed part.

    >>> from headrace.core.errors.attribution import attribute_errors_to
    >>> try:
    ...     with attribute_errors_to("bids"):
    ...         raise ConnectorError("there is no topic")
    ... except ConnectorError as error:
    ...     format_refusal(error)
    'bids: there is no topic'
    """
    part = get_failed_part(error)
    named = part is None or error.message.startswith(f"{part}: ")
    return error.message if named else f"{part}: {error.message}"


def locate_root_cause(error: BaseException) -> str:
    """Return the type of the root cause of an exception, and the line that raised it.

    >>> try:
    ...     {}["a"]
    ... except KeyError as error:
    ...     locate_root_cause(error).startswith("KeyError at <doctest ")
    True
    """
    passed = {id(error)}
    while error.__cause__ is not None and id(error.__cause__) not in passed:
        error = error.__cause__
        passed.add(id(error))
    frames = [*traceback.walk_tb(error.__traceback__)]
    at = "".join(f" at {frame.f_code.co_filename}:{line}" for frame, line in frames[-1:])
    return f"{type(error).__name__}{at}"


def build_failure(error: BaseException, *parts: str) -> Failure:
    """Build the failure for an exception in a subtask of these parts.

    If the exception is attributed to one part, the failure names that part.
    """
    where = get_failed_part(error) or " > ".join(parts)
    match error:
        case SnapshotError():
            return Failure(error.message, where, hint=error.hint, is_transient=True)
        case ConnectorError():
            may_pass = error.split is None and not error.is_final
            place = error.split, error.position
            return Failure(
                error.message,
                where,
                *place,
                error.hint,
                is_transient=may_pass,
                is_final=error.is_final,
                is_worker_lost=error.is_worker_lost,
            )
        case UserCodeError() | ExpressionFailure():
            return Failure(
                error.message, where, hint=error.hint, raise_site=locate_root_cause(error)
            )
    if shortage := find_shortage(error):
        return Failure(shortage.message, where, hint=shortage.hint, is_transient=True)
    trace = "".join(traceback.format_exception(error))
    # The message may differ each time, as by the number of a Polars task, so failures are compared
    # by the raising line. For errors of the system the line means little: they may pass.
    at = "" if isinstance(error, OSError) else locate_root_cause(error)
    message = f"{type(error).__name__}: {get_text(error)}"
    return Failure(message, where, traceback=trace, raise_site=at)
