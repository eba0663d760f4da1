"""Validation of the server addresses in the environment: obstore panics if one is no URL.

Other addresses in the environment are only used for some kinds of credentials; a panic at one of
those is translated to an error (`bucket_errors`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from headrace.core.api.snapshots import RefusedSnapshot
from headrace.core.errors.rendering import escape_unprintable

_ENDPOINT_VARIABLES = {
    "s3": ("AWS_ENDPOINT", "AWS_ENDPOINT_URL"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_OVERRIDING_VARIABLES = {"s3": "AWS_ENDPOINT_URL_S3"}
"""Variable that alone counts if it is set."""

_URL = re.compile(
    r"https?://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>\d{1,5}))?"
    r"(/[A-Za-z0-9._~!$&'()*+,;=:/-]*)?",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+|0[xX][0-9A-Fa-f]*")
"""A host whose last part is a number is taken for an IPv4 address."""


class InvalidEndpoint(RefusedSnapshot):
    """A server address in the environment is no URL."""

    exit_status = 2


def check_endpoint(scheme: str, environment: Mapping[str, str]) -> None:
    """Check that the server addresses for that scheme are URLs. Raises InvalidEndpoint."""
    instead = _OVERRIDING_VARIABLES.get(scheme, "")
    names = (instead,) if instead in environment else _ENDPOINT_VARIABLES.get(scheme, ())
    for name in names:
        text = environment.get(name)
        if text is not None and not _is_url(text):
            # A value that may contain a password is not repeated.
            is_secret = set("@?#") & set(text)
            got = (
                "one with credentials or a query" if is_secret else f'"{escape_unprintable(text)}"'
            )
            message = f"{name}: wanted a URL as http://host:port, got {got}"
            raise InvalidEndpoint(message, "" if text else "unset it, or set it to one")


def _is_url(text: str) -> bool:
    found = _URL.fullmatch(text)
    return found is not None and _is_host(found["host"]) and int(found["port"] or 1) <= 65535


def _is_host(host: str) -> bool:
    try:
        if host.startswith("["):
            IPv6Address(host[1:-1])
        elif _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
            IPv4Address(host.rstrip("."))
    except AddressValueError:
        return False
    return True
