"""URLs as they may be shown: the location, without credentials.

Drivers read URLs more freely than the standard allows: a password may contain a slash. So only the
scheme, the host and the path are shown, and less where these cannot be determined for certain.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from urllib.parse import quote, unquote, unquote_plus

from headrace.core.pipeline.diagnostics import make_value_error
from headrace.core.pipeline.text import MASK, Text
from headrace.core.pipeline.values import SCALAR_SCHEMA, InvalidScalar, ScalarReading
from headrace.core.types.lazy_dataclass import dataclass

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(.*)", re.DOTALL)
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:(\d*|\{[^{}]*\}))?")
_CREDENTIAL_NAME = re.compile(r"pass|pwd|token|secret|key|auth|sig|code|cred", re.IGNORECASE)
_SEPARATORS = re.compile(r"[:/@?#&=]+")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
MIN_SUBSTRING_LENGTH = 4
"""A shorter secret is masked only as a whole word; otherwise no text would remain readable."""


@dataclass(frozen=True, slots=True)
class Url:
    """A URL as written in the pipeline; it prints without its secrets."""

    text: Text

    def reveal(self) -> str:
        """Return the whole URL."""
        return self.text.reveal()

    def __str__(self) -> str:
        return MASK if self.text.secret else mask_url(self.reveal())

    @property
    def location(self) -> Text:
        """The URL's text as a location; its line is shown masked if the URL has secrets."""
        return _mark_secret(self.text)

    @property
    def user(self) -> str:
        """User and password, as written."""
        return _split_url(self.reveal())[1].rpartition("@")[0]

    @property
    def host(self) -> str:
        """Host and port if they may be shown, else an empty string."""
        scheme, at, path, rest = _split_url(self.reveal())
        end = len(scheme) + len("://") + len(at)
        secret = self.text.secret and any(begin < end for begin, _ in self._find_interpolated())
        return "" if secret or not _is_unambiguous(at, path + rest) else at.rpartition("@")[2]

    @property
    def secrets(self) -> frozenset[str]:
        """The secrets to mask in texts of others, in all their encodings."""
        found = {part for secret in self._find_secrets() for part in _PLACEHOLDER.split(secret)}
        written = [(s, unquote(s), unquote_plus(s), quote(unquote(s), safe="")) for s in found]
        return frozenset(each for ways in written for each in ways if each)

    def _find_secrets(self) -> Iterator[str]:
        scheme, at, path, rest = _split_url(self.reveal())
        web = scheme.lower().startswith("http")
        before, has_user, _ = (at + path + rest).rpartition("@") if at else ("", "", "")
        if has_user:
            user, has_password, password = before.partition(":")
            yield from (
                password,
                *(_SEPARATORS.split(password) if not _is_unambiguous(at, path + rest) else ()),
            )
            if web or not has_password:
                yield user
        query, _, fragment = rest.partition("#")
        for pair in re.split("[&;]", query.removeprefix("?")):
            key, _, value = pair.partition("=")
            if web or _CREDENTIAL_NAME.search(key):
                yield value or key
        yield fragment
        if self.text.secret:
            for begin, end in self._find_interpolated():
                put = self.reveal()[begin:end]
                yield from (put, *(_SEPARATORS.split(put) if "://" in put else ()))

    def _find_interpolated(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges interpolated for `${...}`; the whole text if they are unknown."""
        shift = 0
        for piece in self.text.pieces:
            begin = piece.start + shift
            shift += piece.length - (piece.end - piece.start)
            yield begin, begin + piece.length
        if not self.text.pieces:
            yield 0, len(self.text)


def mask_url(url: str) -> str:
    """Mask everything in a URL that may be secret.

    >>> mask_url("postgresql://me:my@word@host/db?sslkey=x"), mask_url("http://host:80/{id}#a")
    ('postgresql://****@host/db?****', 'http://host:80/{id}#****')
    >>> mask_url("postgresql://me:se/same@host/db"), mask_url("sqlite:///a@b.db")
    ('postgresql://****', 'sqlite:///a@b.db')
    """
    scheme, at, path, rest = _split_url(url)
    if not scheme:
        return MASK
    if not _is_unambiguous(at, path + rest):
        return f"{scheme}://{MASK}"
    _, has_user, host = at.rpartition("@")
    masked_rest = f"{rest[0]}{MASK}" if rest else ""
    return f"{scheme}://{MASK + has_user if has_user else ''}{host}{path}{masked_rest}"


def mask_secrets(text: str, secrets: Collection[str]) -> str:
    """Mask these secrets in a text.

    >>> mask_secrets("no /sesame for me, some", ["sesame", "me"])
    'no /**** for ****, some'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        escaped = re.escape(secret)
        pattern = escaped if len(secret) >= MIN_SUBSTRING_LENGTH else rf"(?<!\w){escaped}(?!\w)"
        text = re.sub(pattern, MASK, text, flags=re.IGNORECASE)
    return text


def _split_url(url: str) -> tuple[str, str, str, str]:
    """Split a URL into its scheme, its user and host, its path, and the rest."""
    found = _URL.fullmatch(url)
    return (found[1], found[2], found[3], found[4]) if found else ("", "", "", "")


def _is_unambiguous(at: str, rest: str) -> bool:
    """Whether user and host end where they should, so that no password continues after them."""
    return _HOST.fullmatch(at.rpartition("@")[2]) is not None and not (at and "@" in rest)


def _mark_secret(text: Text) -> Text:
    secret = text.secret or mask_url(text.reveal()) != text.reveal()
    return Text(text.reveal(), text.scalar, text.pieces, secret) if secret else text


def make_url_reading(example: str) -> ScalarReading:
    """Return a reading of URLs; an invalid URL that may hold a password is never repeated."""
    what = f"a URL such as {example}"

    def read(text: Text) -> Url:
        if _URL.fullmatch(text.reveal()):
            return Url(text)
        doubtful = any(sign in text.reveal() for sign in "@?#")
        raise make_value_error(_mark_secret(text), f"wanted {what}") if doubtful else InvalidScalar

    return ScalarReading(what, read, SCALAR_SCHEMA, allows_secret=True)
