"""Options in the form that users write: only those given, durations with a unit, no secret.

Checkpoints store texts that are made of these: changing one makes checkpoints incompatible.
"""

from __future__ import annotations

from datetime import timedelta

from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.text import Text

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


def said(options: Part) -> str:
    """Return the options that were given, in the order of the document.

    >>> from headrace.core.pipeline.settings import Buffer
    >>> said(Buffer(rows=Text("100")))
    'rows 100'
    """
    keys = {field: key for key, field in options.written().items()}
    given = [
        f"{keys[name]} {value_said(getattr(options, name))}"
        for name in type(options).model_fields
        if name in options.model_fields_set
    ]
    return ", ".join(given)


def changes_said(key: tuple[str, ...] | None) -> str:
    """Return the suffix for an operation that reads changes: the key of the changes.

    >>> changes_said(("id",)), changes_said(()), changes_said(None)
    (' of the changes of each id', ' of the changes of one row', '')
    """
    if key is None:
        return ""
    return f" of the changes of {'each ' + ', '.join(key) if key else 'one row'}"


def value_said(value: object) -> str:
    """Return a value as it is written in a pipeline."""
    match value:
        case None:
            return "never"
        case bool():
            return str(value).lower()
        case Text():
            return value.shown
        case timedelta():
            return duration_said(value)
        case Part():
            return "{" + said(value) + "}"
        case Assignment():
            text = value.expression.shown if value.expression else value.name.shown
            return str(value.name) if text == value.name else f"{value.name} = {text}"
        case tuple():
            return "{" + ", ".join(map(value_said, value)) + "}"
    return str(value)


def duration_said(value: timedelta) -> str:
    """Return a duration as a whole number of the largest possible unit.

    >>> duration_said(timedelta(minutes=90)), duration_said(timedelta())
    ('90m', '0s')
    """
    milliseconds = value // timedelta(milliseconds=1)
    for unit, length in _UNITS:
        if milliseconds and milliseconds % length == 0:
            return f"{milliseconds // length}{unit}"
    return "0s"


def us_said(us: int) -> str:
    """Return a duration in microseconds as a whole number of the largest possible unit."""
    return duration_said(timedelta(microseconds=us))
