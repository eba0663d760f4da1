"""What is wrong with a bad record, in words. Nothing here decides whether a record is bad."""

from __future__ import annotations

from headrace.core.types import Field

LONGEST = 60


def misfit(field: Field, record: bytes) -> str:
    """A field does not hold what it should."""
    return f'column "{field.name}": wanted {field.type}, got {_shown(field.name, record)}'


def missing(field: Field) -> str:
    """A field that must be there is null or not there at all."""
    return f'column "{field.name}": wanted {field.type} not null, got null'


def malformed(record: bytes) -> str:
    """The record is not a JSON object."""
    import msgspec

    try:
        value = msgspec.json.decode(record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return f"wanted a JSON object: {_first_small(str(error))}"
    if isinstance(value, dict):
        return "wanted a JSON object: a number, a text or the nesting is out of range"
    return f"wanted a JSON object, got {_short(record.strip().decode('utf-8', 'replace'))}"


def is_doubtful(record: bytes) -> bool:
    """Whether another parser finds it malformed: a hint where to look first, no verdict."""
    import msgspec

    try:
        msgspec.json.decode(record, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError):
        return True
    return False


def _first_small(text: str) -> str:
    return text.removeprefix("JSON is malformed: ").replace("Input data", "the record")


def _shown(name: str, record: bytes) -> str:
    """The value of a field as it is written."""
    import msgspec

    try:
        fields: dict[str, msgspec.Raw] = msgspec.json.decode(record, type=dict[str, msgspec.Raw])
        return _short(bytes(fields[name]).decode("utf-8", "replace"))
    except (msgspec.MsgspecError, KeyError, RecursionError):
        return "something else"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
