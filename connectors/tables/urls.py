"""URLs as they may be shown: without what lets somebody in."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.core.pipeline.complaints import wrong
from headrace.core.pipeline.text import MASK, Text
from headrace.core.pipeline.values import SCALAR, Reads, Unfit

_USER = re.compile(r"//([^/?#:@]*):([^/?#]*)@")
_SAYS = re.compile(r"([?&][^=&#]*(?:pass|pwd|token|secret|key|auth|sig)[^=&#]*=)[^&#]*", re.I)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


@dataclass(frozen=True, slots=True)
class Url:
    """A URL as it was written; it prints without its password."""

    text: Text

    def reveal(self) -> str:
        """All of it."""
        return self.text.reveal()

    @property
    def password(self) -> str:
        """What is not to be shown, also not by others."""
        found = _USER.search(self.reveal())
        return found[2] if found else ""

    def __str__(self) -> str:
        return shown(self.text.shown)

    def without_password(self, text: str) -> str:
        """What somebody says of it, without the password in it."""
        return text.replace(self.password, MASK) if self.password else text


def shown(url: str) -> str:
    """A URL without what is secret in it.

    >>> shown("postgresql://me:my@word@host/db?sslkey=x&a=b"), shown("http://host/{id}?token=abc")
    ('postgresql://me:****@host/db?sslkey=****&a=b', 'http://host/{id}?token=****')
    """
    return _SAYS.sub(rf"\1{MASK}", _USER.sub(rf"//\1:{MASK}@", url))


def url_such_as(example: str) -> Reads:
    """Reads a URL; one that is none is not repeated where there may be a password in it."""
    what = f"a URL such as {example}"

    def read(text: Text) -> Url:
        if _URL.match(text.reveal()):
            return Url(text)
        raise wrong(text, f"wanted {what}") if "@" in text.reveal() else Unfit

    return Reads(what, read, SCALAR, secret=True)
