"""The body of a request for a stream of events: what its viewer looks at."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.cli.control.http_messages import RequestError, check_keys
from headrace.core.api.taps import TapRequest
from headrace.core.types.lazy_dataclass import dataclass

MAX_TAPS = 32
MAX_CONDITION = 10_000
"""The length of a condition, in characters."""

STREAM_KEYS = ("jobs", "job", "taps")
TAP_KEYS = ("from", "where")


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A request for a stream of events."""

    has_jobs: bool = False
    """Whether it wants the list of all jobs."""
    job: str | None = None
    """The job whose figures and rows it wants."""
    taps: tuple[TapRequest, ...] = ()


def parse_stream_request(body: Mapping[str, object]) -> StreamRequest:
    """Parse the body of a request for a stream. Raises RequestError.

    >>> parse_stream_request({"job": "orders", "taps": [{"from": "clean"}]}).taps
    (TapRequest(stream='clean', where=None),)
    """
    check_keys(body, *STREAM_KEYS)
    has_jobs, job, taps = body.get("jobs", False), body.get("job"), body.get("taps", [])
    if not isinstance(has_jobs, bool):
        raise _reject("jobs", "true or false")
    if job is not None and not (isinstance(job, str) and job):
        raise _reject("job", "the name of a job, or null")
    if not isinstance(taps, list) or len(taps) > MAX_TAPS:
        raise _reject("taps", f"a list of at most {MAX_TAPS}")
    return StreamRequest(has_jobs, job, tuple(dict.fromkeys(map(_parse_tap, taps))))


def _parse_tap(tap: object) -> TapRequest:
    if not isinstance(tap, dict):
        raise _reject("taps", 'objects such as {"from": "clean", "where": null}')
    check_keys(tap, *TAP_KEYS)
    stream, where = tap.get("from"), tap.get("where")
    if not (isinstance(stream, str) and stream):
        raise _reject("from", "the name of a source or step")
    if where is not None and not (isinstance(where, str) and len(where) <= MAX_CONDITION):
        raise _reject("where", f"a condition of at most {MAX_CONDITION} characters, or null")
    return TapRequest(stream, where if where and where.strip() else None)


def _reject(key: str, wanted: str) -> RequestError:
    return RequestError(400, "malformed", f"{key}: wanted {wanted}")
