"""Options in the form that users write: only those given, durations with a unit, no secret.

Checkpoints store texts that are made of these: changing one makes checkpoints incompatible.
"""

from __future__ import annotations

from datetime import timedelta

from headrace.core.pipeline.default_values import format_duration
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.text import Text


def format_options(options: DocumentModel) -> str:
    """Return the options that were given, in the order of the document.

    >>> from headrace.core.pipeline.settings import Buffer
    >>> format_options(Buffer(rows=Text("100")))
    'rows 100'
    """
    keys = {field: key for key, field in options.fields_by_key().items()}
    texts = [
        f"{keys[name]} {format_value(getattr(options, name))}"
        for name in type(options).model_fields
        if name in options.model_fields_set
    ]
    return ", ".join(texts)


def format_changelog_suffix(key: tuple[str, ...] | None, *, reads_retractions: bool) -> str:
    """Return the suffix for an operation that reads changes: the key of the changes.

    >>> format_changelog_suffix(("id",), reads_retractions=False)
    ' of the changes of each id'
    >>> format_changelog_suffix((), reads_retractions=False)
    ' of the changes of one row'
    >>> format_changelog_suffix(None, reads_retractions=True)
    ' of rows that are added and removed'
    >>> format_changelog_suffix(None, reads_retractions=False)
    ''
    """
    if reads_retractions:
        return " of rows that are added and removed"
    if key is None:
        return ""
    return f" of the changes of {'each ' + ', '.join(key) if key else 'one row'}"


def format_value(value: object) -> str:
    """Return a value as it is written in a pipeline."""
    match value:
        case None:
            return "never"
        case bool():
            return str(value).lower()
        case Text():
            return value.printable
        case timedelta():
            return format_duration(value)
        case DocumentModel():
            return "{" + format_options(value) + "}"
        case Assignment():
            text = value.expression.printable if value.expression else value.name.printable
            return str(value.name) if text == value.name else f"{value.name} = {text}"
        case tuple():
            return "{" + ", ".join(map(format_value, value)) + "}"
    return str(value)


def format_microseconds(us: int) -> str:
    """Return a duration in microseconds as a whole number of the largest possible unit."""
    return format_duration(timedelta(microseconds=us))


def format_signed_duration(us: int) -> str:
    """Return a duration in microseconds in its largest unit, with a minus if it is negative."""
    return f"-{format_microseconds(-us)}" if us < 0 else format_microseconds(us)
