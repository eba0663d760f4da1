"""`from: [a, b]`: rows of several streams as one, when their columns are the same."""

from __future__ import annotations

from headrace.core.pipeline.text import Text
from headrace.core.plan.columns import UNKNOWN, Known, Report
from headrace.core.types import Field, Schema

HINT = "a step with select makes them equal"


def united_columns(inputs: list[tuple[Text, Known]], report: Report) -> Known:
    """The columns of the union; the first difference of each input from the first is reported."""
    if any(not known.whole for _, known in inputs):
        return inputs[0][1] if len(inputs) == 1 else UNKNOWN
    first, schema = inputs[0][0], inputs[0][1].schema
    for name, known in inputs[1:]:
        difference = _difference(str(first), schema, str(name), known.schema)
        if difference:
            report.add(f"a union needs equal columns: {difference}", name.locate(), HINT)
            return UNKNOWN
        schema = Schema(
            tuple(
                Field(a.name, a.type, a.nullable or b.nullable)
                for a, b in zip(schema, known.schema, strict=True)
            )
        )
    return Known(schema)


def _difference(first: str, left: Schema, second: str, right: Schema) -> str:
    """In words, the first place where two schemas part; "" where they are equal."""
    for name in left.names:
        if name not in right:
            return f'"{first}" has a column "{name}", and "{second}" has none'
    for name in right.names:
        if name not in left:
            return f'"{second}" has a column "{name}", and "{first}" has none'
    for a, b in zip(left, right, strict=True):
        if a.name != b.name:
            order = f"{', '.join(left.names)} and {', '.join(right.names)}"
            return f"their order differs: {order}"
        if a.type != b.type:
            return f'"{a.name}" is {a.type} in "{first}" and {b.type} in "{second}"'
    return ""
