"""Error texts for bad JSON records. Nothing here decides whether a record is bad."""

from __future__ import annotations

import json
import re

from headrace.connectors.formats.bad_records import describe_invalid_value, shorten_text
from headrace.core.types.data_types import Field


def describe_invalid_field(field: Field, record: bytes) -> str:
    """Return the error text of a field whose value is not of its type."""
    return describe_invalid_value(field, _extract_value(field.name, record))


FILE_SIGNATURES = {
    b"\x1f\x8b": "this is gzip, which is read if the file's name ends in .gz",
    b"\x28\xb5\x2f\xfd": "this is zstd, which is read if the file's name ends in .zst",
    b"\xff\xfe": "this is UTF-16, wanted UTF-8",
    b"\xfe\xff": "this is UTF-16, wanted UTF-8",
    b"PAR1": "this is Parquet",
}
"""The first bytes of files that are not JSON text."""


def describe_malformed(record: bytes) -> str:
    """Return the error text of a record that is not a JSON object."""
    for sign, what in FILE_SIGNATURES.items():
        if record.startswith(sign):
            return f"wanted a JSON object: {what}"
    try:
        text = record.strip().decode()
        # Python refuses to convert numbers of more than 4300 digits; their values do not matter.
        value = json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        return f"wanted a JSON object: {_describe_syntax_error(text, error)}"
    except UnicodeDecodeError:
        return "wanted a JSON object: it is not UTF-8"
    except RecursionError:
        return "wanted a JSON object: it is nested too deep"
    if isinstance(value, dict):
        return "wanted a JSON object: something in it is out of range"
    return f"wanted a JSON object, got {shorten_text(text)}"


def _describe_syntax_error(text: str, error: json.JSONDecodeError) -> str:
    """Explain why a text is not JSON."""
    if text.startswith("["):
        return "an array begins here; objects are read one per line"
    if text.startswith("{") and not text[error.pos :].strip():
        return "it does not end on its line"
    # Some of Python's messages end in "at" or "starting at", before a position.
    reason = re.sub(r"( starting)? at$", "", error.msg.lower())
    return f"{reason} at character {error.pos}"


def is_doubtful(record: bytes) -> bool:
    """Whether another parser finds the record malformed: a hint where to look first."""
    import msgspec

    try:
        msgspec.json.decode(record, type=msgspec.Raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return True
    return False


def _extract_value(name: str, record: bytes) -> str:
    """Return the value of a field as written."""
    import msgspec

    try:
        fields: dict[str, msgspec.Raw] = msgspec.json.decode(record, type=dict[str, msgspec.Raw])
        return shorten_text(bytes(fields[name]).decode("utf-8", "replace"))
    except (msgspec.MsgspecError, LookupError, ValueError, RecursionError):
        return "something else"
