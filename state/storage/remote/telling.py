"""What a bucket's server says, as a user is told it: a few words of our own, and its codes.

The words of obstore tell whole requests, and those may tell secrets: none of them is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.core.snapshots import StoreError
from headrace.state.storage.remote.objects import Unanswered

_RIGHTS = "see which rights docs/remote.md lists, and whose credentials the environment has"
_NONE = "docs/remote.md lists the variables that tell them"
_PANIC = "see the addresses in the environment: one may be no URL"
_STATUS = re.compile(r"status code: (\d{3}) ([A-Za-z -]{2,40})")
_CODE = re.compile(r"<Code>([A-Za-z]{2,60})</Code>")

_NO_PLACE = ("NoSuchBucket", "ContainerNotFound")
"""What is not there is no object: nothing that is there is found then."""

_KNOWN = (
    # What its text has, what is said of it, a hint.
    ("169.254.169.254", "the environment has no credentials for it", _NONE),
    ("MissingAccount", "AZURE_STORAGE_ACCOUNT_NAME is not set", _NONE),
    ("BadScheme", "its endpoint is http, not https", "AWS_ALLOW_HTTP=true allows that"),
    ("NoSuchBucket", "there is no such bucket", "it has to be made before"),
    ("ContainerNotFound", "there is no such container", "it has to be made before"),
    (
        "NotImplemented",
        "it cannot be written under a condition",
        "docs/remote.md says why it has to",
    ),
    ("kind: Connect", "the server cannot be reached", "see its endpoint in the environment"),
    ("kind: Timeout", "the server did not answer in time", ""),
    ("TimedOut", "the server did not answer in time", ""),
)


@contextmanager
def asking(doing: str, *through: type[BaseException]) -> Iterator[None]:
    """Says what could not be done, and why; those named pass through as they are."""
    from obstore import exceptions

    known = (exceptions.BaseError, OSError, ValueError, NotImplementedError)
    caught: tuple[type[BaseException], ...] = (*known, *through)
    try:
        yield
    except caught as error:
        if isinstance(error, through) and not any(each in str(error) for each in _NO_PLACE):
            raise
        what, hint = why(str(error))
        status = _STATUS.search(str(error))
        is_denied = status is not None and status[1] in ("401", "403")
        kind = StoreError if is_denied or isinstance(error, FileNotFoundError) else Unanswered
        if is_denied:
            hint = hint or _RIGHTS
        # Its text is in no trace either.
        raise kind(f"cannot {doing}: {what}", hint) from None
    except BaseException as error:
        if not _is_panic(error):
            raise
        raise Unanswered(f"cannot {doing}: the client of the bucket failed", _PANIC) from None


def _is_panic(error: BaseException) -> bool:
    """Whether it is one of obstore's Rust, which is no Exception, and can be imported nowhere."""
    return type(error).__name__ == "PanicException"


def why(text: str) -> tuple[str, str]:
    """What to say of a text of obstore, and a hint.

    >>> why("... status code: 503 Service Unavailable: <Error><Code>SlowDown</Code>...")
    ('the server says 503 Service Unavailable, SlowDown', '')
    >>> why("... kind: Connect, ...")[0]
    'the server cannot be reached'
    """
    for known, said, hint in _KNOWN:
        if known in text:
            return said, hint
    status, code = _STATUS.search(text), _CODE.search(text)
    if status is None:
        return "the connection broke, or what came through it was no answer", ""
    said = f"the server says {status[1]} {status[2].strip()}"
    return (f"{said}, {code[1]}" if code else said), ""
