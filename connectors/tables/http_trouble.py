"""What goes wrong with a server, in words of our own: its texts, and aiohttp's, repeat the URL."""

from __future__ import annotations

import os
import socket
from http import HTTPStatus

import aiohttp

REDIRECTS = 10
"""So many are followed, one behind the other."""
_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.InvalidURL, "cannot be asked: the URL is none"),
    (aiohttp.ClientConnectorDNSError, "is not known: there is no host of that name"),
    (aiohttp.ClientConnectorCertificateError, "has no certificate that is trusted"),
    (aiohttp.ClientSSLError, "cannot be spoken to by TLS"),
    (aiohttp.ServerDisconnectedError, "closed the connection before it answered"),
    (aiohttp.ClientPayloadError, "broke off within its answer, or packed it wrongly"),
    (aiohttp.ClientResponseError, "answered what is no HTTP"),
    (TimeoutError, "did not answer in time"),
)


def said(error: Exception) -> str:
    """What the server did, or what became of asking it."""
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return words
    if isinstance(error, OSError):
        return f"cannot be reached: {reason(error)}"
    return f"cannot be asked: {type(error).__name__}"


def reason(error: OSError) -> str:
    """The system's word for it; it does not know who was asked."""
    if isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    if isinstance(error, socket.gaierror):
        return "there is no host of that name"
    return os.strerror(error.errno).lower() if error.errno else "nobody answers there"


def status_said(status: int) -> str:
    """A status with the standard's word for it.

    >>> status_said(404), status_said(599)
    ('404 Not Found', '599')
    """
    known = status in HTTPStatus._value2member_map_
    return f"{status} {HTTPStatus(status).phrase}" if known else str(status)
