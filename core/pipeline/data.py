"""The two special values in the models' input, and the description of a value in a message.

YAML's null is passed as `NOTHING`, and a value that has been reported already as `BROKEN`, because
None means that a key is absent.
"""

from __future__ import annotations

from typing import Final

from headrace.core.pipeline.text import Text, quote_short


class _SpecialValue:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


NOTHING: Final = _SpecialValue("nothing")
BROKEN: Final = _SpecialValue("broken")


def describe_value(value: object) -> str:
    """Describe a value for a message, without showing a secret."""
    match value:
        case Text(secret=True):
            return str(value)
        case str():
            return quote_short(value)
        case dict():
            return "a mapping" if value else "an empty mapping"
        case list():
            return "a list" if value else "an empty list"
    return "nothing"
