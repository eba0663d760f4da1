"""Default values as users would write them, for the JSON schema and the docs."""

from __future__ import annotations

from datetime import timedelta

from headrace.core.pipeline.clauses.lookup import OnMiss
from headrace.core.pipeline.document_model import DocumentModel, ModelField
from headrace.core.pipeline.fields import OnError
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import SIZES, UNIT_SECONDS, size


def format_default(field: ModelField) -> bool | int | float | str | None:
    """Return the default of a key as written in a document; None if there is none to show."""
    value = field.default
    if field.is_required() or value is None or isinstance(value, DocumentModel):
        return None
    if field.reading is size:
        return _format_in_largest_unit(value, SIZES)
    match value:
        case timedelta():
            return format_duration(value)
        case OnError() | OnMiss():
            return value.action
        case Text():
            return value.reveal()
        case bool() | int() | float() | str():
            return value
    raise AssertionError(f"no way to write {value!r}")


def format_duration(length: timedelta) -> str:
    """Return a duration as a whole number of the largest possible unit.

    >>> format_duration(timedelta(minutes=10)), format_duration(timedelta(milliseconds=1500))
    ('10m', '1500ms')
    >>> format_duration(timedelta(microseconds=1500))
    '1500us'
    """
    if length % timedelta(milliseconds=1):
        return f"{length // timedelta(microseconds=1)}us"
    ms = length // timedelta(milliseconds=1)
    units = {unit: round(seconds * 1000) for unit, seconds in UNIT_SECONDS.items()}
    return _format_in_largest_unit(ms, units) if ms else "0s"


def _format_in_largest_unit(value: int, units: dict[str, int]) -> str:
    unit = max((u for u in units if value % units[u] == 0), key=lambda u: units[u])
    return f"{value // units[unit]}{unit}"
