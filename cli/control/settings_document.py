"""The settings of a running job as plain data, with those that are not defaults marked."""

from __future__ import annotations

from datetime import timedelta

from headrace.core.pipeline.default_values import format_duration
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.settings import Settings


def build_settings_document(settings: Settings) -> dict[str, object]:
    """Return all settings in the order of the documentation, each with its name and value.

    >>> build_settings_document(Settings(parallelism=2))["settings"][0]
    {'name': 'parallelism', 'value': 2, 'is_default': False}
    """
    return {"settings": _list_settings(settings, Settings(), "")}


def _list_settings(
    values: DocumentModel, defaults: DocumentModel, prefix: str
) -> list[dict[str, object]]:
    known, found = defaults.get_values(), list[dict[str, object]]()
    for name, value in values.get_values().items():
        default, path = known.get(name), f"{prefix}{name}"
        if isinstance(value, DocumentModel):
            same = default if type(default) is type(value) else type(value)()
            assert isinstance(same, DocumentModel), path
            found += _list_settings(value, same, f"{path}.")
        else:
            item = {"name": path, "value": _format_value(value), "is_default": value == default}
            found.append(item)
    return found


def _format_value(value: object) -> object:
    if isinstance(value, timedelta):
        return format_duration(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)
