"""Errors of an HTTP server in our own words: its texts, and aiohttp's, repeat the URL."""

from __future__ import annotations

import os
import socket
from http import HTTPStatus

import aiohttp

MAX_REDIRECTS = 10
"""The maximum of redirects followed in a row."""
_ERROR_TEXTS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.InvalidURL, "cannot be requested: the URL is invalid"),
    (aiohttp.ClientConnectorDNSError, "is not known: there is no host of that name"),
    (aiohttp.ClientConnectorCertificateError, "has no trusted certificate"),
    (aiohttp.ClientSSLError, "does not complete the TLS handshake"),
    (aiohttp.ServerDisconnectedError, "closed the connection before it answered"),
    (aiohttp.ClientPayloadError, "ended its response early, or encoded it wrongly"),
    (aiohttp.ClientResponseError, "answered with something that is not HTTP"),
    (TimeoutError, "did not answer in time"),
)


def describe_error(error: Exception) -> str:
    """Describe a failed request, as a predicate of the server."""
    for kind, words in _ERROR_TEXTS:
        if isinstance(error, kind):
            return words
    if isinstance(error, OSError):
        return f"cannot be reached: {describe_os_error(error)}"
    return f"cannot be requested: {type(error).__name__}"


def describe_os_error(error: OSError) -> str:
    """Return the system's text for an error; unlike aiohttp's, it does not repeat the URL."""
    if isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    if isinstance(error, socket.gaierror):
        return "there is no host of that name"
    return os.strerror(error.errno).lower() if error.errno else "nothing answers there"


def format_status(status: int) -> str:
    """Format a status with its standard phrase.

    >>> format_status(404), format_status(599)
    ('404 Not Found', '599')
    """
    known = status in HTTPStatus._value2member_map_
    return f"{status} {HTTPStatus(status).phrase}" if known else str(status)
