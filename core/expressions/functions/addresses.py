"""Parts of addresses (URLs), as `parse_url` finds them by the rules of Java's class URI."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from headrace.core.expressions.function import Overload, SqlFunction, function, overload
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import ExpressionError, PolarsForm

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
    return {**found, **server, "QUERY": query if mark else None}


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


def _find_part(text: str, part: str) -> str | None:
    parts = split_address(text)
    return parts.get(part) if parts else None


def _find_value(key: re.Pattern[str], text: str, part: str) -> str | None:
    """Return the value of a key of the query."""
    query = _find_part(text, part) if part == "QUERY" else None
    found = key.search(query) if query else None
    return found[1] if found else None


def _build_find_part(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import map_values

    return map_values(_find_part, bound.result)


def _build_find_value(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import map_values

    key = bound.constants[2]
    assert isinstance(key, str)
    if re.search(r"[\\^$|?*+()\[\]{}]", key):
        message = f"a key of a query is plain text, got {key!r}"
        raise ExpressionError(
            message, bound.arguments[2].span, "write its letters and digits, as in 'id'"
        )
    pattern = re.compile(rf"(?:&|^){key}=([^&]*)")
    form = map_values(partial(_find_value, pattern), bound.result)
    return lambda text, part, _: form(text, part)


def _overloads(name: str) -> tuple[Overload, Overload]:
    return (
        overload(f"{name}(address: string, part: string) -> string", build=_build_find_part),
        overload(
            f"{name}(address: string, part: string, key: constant string) -> string",
            build=_build_find_value,
        ),
    )


ADDRESSES: tuple[SqlFunction, ...] = (
    function(
        "parse_url",
        "encodings",
        "A part of an address: 'PROTOCOL', 'AUTHORITY', 'USERINFO', 'HOST', 'PATH', 'QUERY', 'REF',"
        " or 'FILE', which is path and query; with a key, its value in the query. NULL if there is"
        " none, or if the text is no address.",
        *_overloads("parse_url"),
        example=("parse_url('http://spark.apache.org/path?query=1', 'HOST')", "spark.apache.org"),
        more=(("parse_url('http://h/?a=1&b=2', 'QUERY', 'b')", "2"),),
        aliases=("try_parse_url",),
    ),
)
"""The functions of addresses."""
