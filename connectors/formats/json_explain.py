"""What is wrong with a bad JSON record, in words. Nothing here decides whether a record is bad."""

from __future__ import annotations

import json

from headrace.connectors.formats.faults import short, unfit
from headrace.core.types import Field


def misfit(field: Field, record: bytes) -> str:
    """A field does not hold what it should."""
    return unfit(field, _shown(field.name, record))


def malformed(record: bytes) -> str:
    """The record is not a JSON object."""
    try:
        value = json.loads(record.strip())
    except json.JSONDecodeError as error:
        return f"wanted a JSON object: {error.msg.lower()} at character {error.pos}"
    except UnicodeDecodeError:
        return "wanted a JSON object: it is not UTF-8"
    except RecursionError:
        return "wanted a JSON object: it is nested too deep"
    if isinstance(value, dict):
        return "wanted a JSON object: something in it is out of range"
    return f"wanted a JSON object, got {short(record.strip().decode('utf-8', 'replace'))}"


def is_doubtful(record: bytes) -> bool:
    """Whether another parser finds it malformed: a hint where to look first, no verdict."""
    import msgspec

    try:
        msgspec.json.decode(record, type=msgspec.Raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return True
    return False


def _shown(name: str, record: bytes) -> str:
    """The value of a field as it is written."""
    import msgspec

    try:
        fields: dict[str, msgspec.Raw] = msgspec.json.decode(record, type=dict[str, msgspec.Raw])
        return short(bytes(fields[name]).decode("utf-8", "replace"))
    except (msgspec.MsgspecError, LookupError, ValueError, RecursionError):
        return "something else"
