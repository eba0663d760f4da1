"""The parts of addresses (URLs) by the rules of Java's class URI."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Other characters than those of ASCII are taken, unless they are spaces or controls.
_OTHER = r"[^\x00-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]|%[0-9A-Fa-f]{2}"
_UNRESERVED = r"A-Za-z0-9_\-.!~*'()"
_PATH = re.compile(rf"(?:[{_UNRESERVED}/:@&=+$,;]|{_OTHER})*")
_ANY = re.compile(rf"(?:[{_UNRESERVED};/?:@&=+$,\[\]]|{_OTHER})*")
_REGISTRY_NAME = re.compile(rf"(?:[{_UNRESERVED}$,;:@&=+]|{_OTHER})*")

_SPLIT = re.compile(r"(?:([^:/?#]*):)?(?://([^/?#]*))?([^#]*)(?:#(.*))?", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+\-.]*")

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_LAST_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_BYTE = r"0*(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[0-9]{1,2})"
_SERVER = re.compile(
    rf"(?:((?:[{_UNRESERVED};:&=+$,]|{_OTHER})*)@)?"
    rf"(\[([0-9A-Fa-f:.]+)(?:%[A-Za-z0-9_\-.]+)?\]|{_BYTE}(?:\.{_BYTE}){{3}}(?=:|\Z)"
    rf"|(?:(?:{_LABEL}\.)+{_LAST_LABEL}|{_LABEL})\.?)"
    r"(?::([0-9]*))?"
)
_MAX_PORT = 2**31 - 1


def split_address(text: str) -> Mapping[str, str | None] | None:
    """Return the parts of an address, or None if the text is none.

    >>> split_address("http://u@h:80/p?q#r")["AUTHORITY"]
    'u@h:80'
    """
    match = _SPLIT.fullmatch(text)
    assert match is not None, text
    scheme, authority, rest, fragment = match.groups()
    if scheme is not None and not _SCHEME.fullmatch(scheme):
        return None
    if fragment is not None and not _ANY.fullmatch(fragment):
        return None
    if scheme is not None and authority is None and not rest.startswith("/"):
        return {"PROTOCOL": scheme, "REF": fragment} if rest and _ANY.fullmatch(rest) else None
    path, mark, query = rest.partition("?")
    lacks_authority = authority == "" and not rest and fragment is None
    if lacks_authority or not (_PATH.fullmatch(path) and _ANY.fullmatch(query)):
        return None
    server = _split_authority(authority) if authority else {}
    if server is None:
        return None
    found = {"PROTOCOL": scheme, "PATH": path, "FILE": rest, "REF": fragment}
    found["QUERY"] = query if mark else None
    found.update(server)
    return found


def _split_authority(text: str) -> Mapping[str, str | None] | None:
    """Return the parts of a server's address; only the whole of another name."""
    match = _SERVER.fullmatch(text)
    if match and (not match[3] or _is_ipv6(match[3])) and int(match[4] or 0) <= _MAX_PORT:
        return {"AUTHORITY": text, "USERINFO": match[1], "HOST": match[2]}
    return {"AUTHORITY": text} if _REGISTRY_NAME.fullmatch(text) else None


def _is_ipv6(text: str) -> bool:
    import ipaddress

    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def find_address_part(text: str, part: str) -> str | None:
    """Return the part of that name; None if there is none, or if the text is no address."""
    parts = split_address(text)
    return parts.get(part) if parts else None
