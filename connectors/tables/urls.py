"""URLs as they may be shown: the location, without credentials.

Drivers read URLs more freely than the standard allows: a password may contain a slash. So only the
scheme, the host and the path are shown, and less where these cannot be determined for certain.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote, unquote_plus

from headrace.core.pipeline.complaints import wrong
from headrace.core.pipeline.text import MASK, Text
from headrace.core.pipeline.values import SCALAR, Reads, Unfit

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(.*)", re.DOTALL)
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:(\d*|\{[^{}]*\}))?")
_LETS_IN = re.compile(r"pass|pwd|token|secret|key|auth|sig|code|cred", re.IGNORECASE)
_SIGNS = re.compile(r"[:/@?#&=]+")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
LONG = 4
"""A shorter secret is masked only as a whole word; otherwise no text would remain readable."""


@dataclass(frozen=True, slots=True)
class Url:
    """A URL as written in the pipeline; it prints without its secrets."""

    text: Text

    def reveal(self) -> str:
        """Return the whole URL."""
        return self.text.reveal()

    def __str__(self) -> str:
        return MASK if self.text.secret else shown(self.reveal())

    @property
    def place(self) -> Text:
        """The URL's text as a location; its line is shown masked if the URL has secrets."""
        return _hidden(self.text)

    @property
    def user(self) -> str:
        """User and password, as written."""
        return _parts(self.reveal())[1].rpartition("@")[0]

    @property
    def host(self) -> str:
        """Host and port if they may be shown, else an empty string."""
        scheme, at, path, rest = _parts(self.reveal())
        end = len(scheme) + len("://") + len(at)
        secret = self.text.secret and any(begin < end for begin, _ in self._put_in())
        return "" if secret or not _sure(at, path + rest) else at.rpartition("@")[2]

    @property
    def secrets(self) -> frozenset[str]:
        """The secrets to mask in texts of others, in all their encodings."""
        found = {part for said in self._secret() for part in _PLACEHOLDER.split(said)}
        written = [(s, unquote(s), unquote_plus(s), quote(unquote(s), safe="")) for s in found]
        return frozenset(each for ways in written for each in ways if each)

    def _secret(self) -> Iterator[str]:
        scheme, at, path, rest = _parts(self.reveal())
        web = scheme.lower().startswith("http")
        before, has_user, _ = (at + path + rest).rpartition("@") if at else ("", "", "")
        if has_user:
            user, has_password, password = before.partition(":")
            yield from (password, *(_SIGNS.split(password) if not _sure(at, path + rest) else ()))
            if web or not has_password:
                yield user
        query, _, fragment = rest.partition("#")
        for pair in re.split("[&;]", query.removeprefix("?")):
            key, _, value = pair.partition("=")
            if web or _LETS_IN.search(key):
                yield value or key
        yield fragment
        if self.text.secret:
            for begin, end in self._put_in():
                put = self.reveal()[begin:end]
                yield from (put, *(_SIGNS.split(put) if "://" in put else ()))

    def _put_in(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges interpolated for `${...}`; the whole text if they are unknown."""
        shift = 0
        for piece in self.text.pieces:
            begin = piece.start + shift
            shift += piece.length - (piece.end - piece.start)
            yield begin, begin + piece.length
        if not self.text.pieces:
            yield 0, len(self.text)


def shown(url: str) -> str:
    """Mask everything in a URL that may be secret.

    >>> shown("postgresql://me:my@word@host/db?sslkey=x"), shown("http://host:80/{id}#a")
    ('postgresql://****@host/db?****', 'http://host:80/{id}#****')
    >>> shown("postgresql://me:se/same@host/db"), shown("sqlite:///a@b.db")
    ('postgresql://****', 'sqlite:///a@b.db')
    """
    scheme, at, path, rest = _parts(url)
    if not scheme:
        return MASK
    if not _sure(at, path + rest):
        return f"{scheme}://{MASK}"
    _, has_user, host = at.rpartition("@")
    masked_rest = f"{rest[0]}{MASK}" if rest else ""
    return f"{scheme}://{MASK + has_user if has_user else ''}{host}{path}{masked_rest}"


def masked(text: str, secrets: Collection[str]) -> str:
    """Mask these secrets in a text.

    >>> masked("no /sesame for me, some", ["sesame", "me"])
    'no /**** for ****, some'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        escaped = re.escape(secret)
        pattern = escaped if len(secret) >= LONG else rf"(?<!\w){escaped}(?!\w)"
        text = re.sub(pattern, MASK, text, flags=re.IGNORECASE)
    return text


def _parts(url: str) -> tuple[str, str, str, str]:
    """Split a URL into its scheme, its user and host, its path, and the rest."""
    found = _URL.fullmatch(url)
    return (found[1], found[2], found[3], found[4]) if found else ("", "", "", "")


def _sure(at: str, rest: str) -> bool:
    """Whether user and host end where they should, so that no password continues after them."""
    return _HOST.fullmatch(at.rpartition("@")[2]) is not None and not (at and "@" in rest)


def _hidden(text: Text) -> Text:
    secret = text.secret or shown(text.reveal()) != text.reveal()
    return Text(text.reveal(), text.scalar, text.pieces, secret) if secret else text


def url_such_as(example: str) -> Reads:
    """Return a reading of URLs; an invalid URL that may hold a password is never repeated."""
    what = f"a URL such as {example}"

    def read(text: Text) -> Url:
        if _URL.fullmatch(text.reveal()):
            return Url(text)
        doubtful = any(sign in text.reveal() for sign in "@?#")
        raise wrong(_hidden(text), f"wanted {what}") if doubtful else Unfit

    return Reads(what, read, SCALAR, secret=True)
