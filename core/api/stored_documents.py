"""Stored documents as typed values: a document of another form is damage, not a bug in headrace."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from headrace.core.types.lazy_pattern import compile_pattern

if TYPE_CHECKING:
    import msgspec

T = TypeVar("T")

_CONVERSION_LOCK = threading.Lock()
"""msgspec crashes the process if two threads are the first to convert to a type together."""

_REWORDINGS = (
    (compile_pattern(r"^Expected "), "wanted "),
    (compile_pattern(r"^Object missing required field (`[^`]*`)"), r"it lacks \1"),
    (compile_pattern(r"^Invalid value "), "unknown value "),
    (compile_pattern(r" - at (key in )?`\$\.?([^`]*)`$"), r" in \1\2"),
    (compile_pattern(r" in (key in )?$"), ""),
    (compile_pattern("`"), ""),
)


class MalformedDocument(Exception):
    """A stored document has another form than the one that headrace writes; says where."""


def convert_document(document: object, kind: type[T]) -> T:
    """Return a document of plain data as a value of this type. Raises MalformedDocument.

    >>> convert_document({"rows": 1}, dict[str, int])
    {'rows': 1}
    >>> convert_document({"rows": [1, "2"]}, dict[str, list[int]])
    Traceback (most recent call last):
    ...
    headrace.core.api.stored_documents.MalformedDocument: wanted int, got str in [...][1]
    """
    import msgspec

    try:
        return convert_plain(document, kind)
    except msgspec.ValidationError as error:
        raise MalformedDocument(describe_mismatch(error)) from error


def convert_plain(document: object, kind: type[T]) -> T:
    """Return a document of plain data as a value of this type. Raises ValidationError."""
    import msgspec

    with _CONVERSION_LOCK:
        return msgspec.convert(document, kind)


def describe_mismatch(error: msgspec.ValidationError) -> str:
    """Return in which way a document has another form."""
    text = str(error)
    for pattern, words in _REWORDINGS:
        text = pattern.sub(words, text)
    return text
