"""Translation of a bucket's errors into messages: a few words of our own, and the server's codes.

obstore's texts contain whole requests, which may contain secrets: none of them is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.core.api.snapshots import StoreError
from headrace.state.storage.remote.object_storage import RequestOutcomeUnknown

_PERMISSION_HINT = (
    "see which rights docs/remote.md lists, and whose credentials the environment has"
)
_CREDENTIALS_HINT = "docs/remote.md lists the variables that set them"
_PANIC_HINT = "see the addresses in the environment: one may be no URL"
_STATUS_PATTERN = re.compile(r"status code: (\d{3}) ([A-Za-z -]{2,40})")
_CODE_PATTERN = re.compile(r"<Code>([A-Za-z]{2,60})</Code>")

_MISSING_BUCKET_CODES = ("NoSuchBucket", "ContainerNotFound")
"""Codes of a missing bucket, as opposed to a missing object."""

_KNOWN_ERRORS = (
    # Part of the error text, message, hint.
    ("169.254.169.254", "the environment has no credentials for it", _CREDENTIALS_HINT),
    ("MissingAccount", "AZURE_STORAGE_ACCOUNT_NAME is not set", _CREDENTIALS_HINT),
    ("BadScheme", "its endpoint is http, not https", "AWS_ALLOW_HTTP=true allows that"),
    ("NoSuchBucket", "there is no such bucket", "it must be created first"),
    ("ContainerNotFound", "there is no such container", "it must be created first"),
    (
        "NotImplemented",
        "it does not support conditional writes",
        "docs/remote.md says why it has to",
    ),
    ("kind: Connect", "the server cannot be reached", "see its endpoint in the environment"),
    ("kind: Timeout", "the server did not answer in time", ""),
    ("TimedOut", "the server did not answer in time", ""),
)


@contextmanager
def translate_bucket_errors(doing: str, *through: type[BaseException]) -> Iterator[None]:
    """Translate an error into what could not be done, and why; errors of the types `through` pass
    unchanged.
    """
    from obstore import exceptions

    known = (exceptions.BaseError, OSError, ValueError, NotImplementedError)
    caught: tuple[type[BaseException], ...] = (*known, *through)
    try:
        yield
    except caught as error:
        if isinstance(error, through) and not any(
            each in str(error) for each in _MISSING_BUCKET_CODES
        ):
            raise
        what, hint = describe_bucket_error(str(error))
        status = _STATUS_PATTERN.search(str(error))
        is_denied = status is not None and status[1] in ("401", "403")
        kind = (
            StoreError
            if is_denied or isinstance(error, FileNotFoundError)
            else RequestOutcomeUnknown
        )
        if is_denied:
            hint = hint or _PERMISSION_HINT
        # `from None` keeps the text out of tracebacks, too.
        raise kind(f"cannot {doing}: {what}", hint) from None
    except BaseException as error:
        if not _is_panic(error):
            raise
        raise RequestOutcomeUnknown(
            f"cannot {doing}: the client of the bucket failed", _PANIC_HINT
        ) from None


def _is_panic(error: BaseException) -> bool:
    """Whether the error is a panic of obstore's Rust code, whose type is no Exception and cannot be
    imported.
    """
    return type(error).__name__ == "PanicException"


def describe_bucket_error(text: str) -> tuple[str, str]:
    """Return the message for an error text of obstore, and a hint.

    >>> text = "... status code: 503 Service Unavailable: <Error><Code>SlowDown</Code>..."
    >>> describe_bucket_error(text)
    ('the server says 503 Service Unavailable, SlowDown', '')
    >>> describe_bucket_error("... kind: Connect, ...")[0]
    'the server cannot be reached'
    """
    for known, message, hint in _KNOWN_ERRORS:
        if known in text:
            return message, hint
    status, code = _STATUS_PATTERN.search(text), _CODE_PATTERN.search(text)
    if status is None:
        return "the connection broke, or its answer was invalid", ""
    message = f"the server says {status[1]} {status[2].strip()}"
    return (f"{message}, {code[1]}" if code else message), ""
