"""The two values that the models get beside texts, dicts and lists, and how values are described.

YAML's null comes as `NOTHING` and what has been reported already as `BROKEN`, because None means
that a key is absent.
"""

from __future__ import annotations

from typing import Final

from headrace.core.pipeline.text import Text, quoted


class _Mark:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


NOTHING: Final = _Mark("nothing")
BROKEN: Final = _Mark("broken")


def described(value: object) -> str:
    """What came, for a message; a secret is not said."""
    match value:
        case Text(secret=True):
            return str(value)
        case str():
            return quoted(value)
        case dict():
            return "a mapping" if value else "an empty mapping"
        case list():
            return "a list" if value else "an empty list"
    return "nothing"
