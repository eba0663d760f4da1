"""Unions (`from: [a, b]`): several streams as one, if their columns are the same.

Same means names, order and types: no type is widened and no column filled with nulls, except by a
`select`. If columns differ, the hint has the complete steps that make them equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.core.expressions.casts.rules import find_refusal
from headrace.core.expressions.coercion import common_type
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.error_context import format_flow_scalar
from headrace.core.plan.columns import UNKNOWN_COLUMNS, KnownColumns, PlanProblems
from headrace.core.types.data_types import Field, Schema, Type, quote_name

MAX_DIFFERENCES = 4
"""The largest number of differences in a message; the hint covers all of them."""


def unite_columns(
    inputs: Sequence[tuple[Text, KnownColumns]], report: PlanProblems
) -> KnownColumns:
    """Return the columns of the union; report all differences of inputs from the first one."""
    if not inputs or any(not known.is_complete for _, known in inputs):
        return inputs[0][1] if len(inputs) == 1 else UNKNOWN_COLUMNS
    first, schema = str(inputs[0][0]), inputs[0][1].schema
    schemas = {str(name): known.schema for name, known in inputs}
    equal = True
    for name, known in inputs[1:]:
        found = [*_list_differences(first, schema, str(name), known.schema)]
        if found:
            more = (
                [f"and {len(found) - MAX_DIFFERENCES} more"] if len(found) > MAX_DIFFERENCES else []
            )
            differences = "; ".join((*found[:MAX_DIFFERENCES], *more))
            message = f"a union needs equal columns: {differences}"
            report.add(message, name.locate(), _suggest_steps(schemas) if equal else "")
            equal = False
    if not equal:
        return UNKNOWN_COLUMNS
    fields = zip(*schemas.values(), strict=True)
    return KnownColumns(
        Schema(tuple(Field(f[0].name, f[0].type, any(e.nullable for e in f)) for f in fields)),
        has_row_place=all(known.has_row_place for _, known in inputs),
    )


def _list_differences(first: str, left: Schema, second: str, right: Schema) -> Iterator[str]:
    """Yield the differences between two schemas, in words."""
    for name in left.names:
        if name not in right:
            yield f'"{first}" has a column "{name}", but "{second}" has none'
    for name in right.names:
        if name not in left:
            yield f'"{second}" has a column "{name}", but "{first}" has none'
    for a in left:
        b = right.get(a.name)
        if b is not None and a.type != b.type:
            yield f'"{a.name}" is {a.type} in "{first}" and {b.type} in "{second}"'
    if set(left.names) == set(right.names) and left.names != right.names:
        yield f"their order differs: {', '.join(left.names)} and {', '.join(right.names)}"


def _suggest_steps(schemas: dict[str, Schema]) -> str:
    """Return the steps that make the columns equal, and the `from` that reads them."""
    wanted = dict[str, Type]()
    for schema in schemas.values():
        for field in schema:
            both = _get_common_type(wanted.setdefault(field.name, field.type), field.type)
            if both is None:
                return f'no type fits both: rename "{field.name}" in an earlier step'
            wanted[field.name] = both
    fields = [Field(name, type) for name, type in wanted.items()]
    names, steps = list[str](), list[str]()
    for name, schema in schemas.items():
        if [(f.name, f.type) for f in schema] == [*wanted.items()]:
            names.append(name)
            continue
        names.append(_make_unique(f"{name.replace('.', '_')}_rows", (*schemas, *names)))
        steps.append(f"{names[-1]}: {{from: {name}, select: {_format_select(schema, fields)}}}")
    return f"add {' and '.join(steps)} and read from: [{', '.join(names)}]"


def _get_common_type(left: Type, right: Type) -> Type | None:
    """Return the common type of two types, the first if the second can only be cast to it."""
    if found := common_type(left, right):
        return found
    return None if find_refusal(right, left, try_=False) else left


def _format_select(schema: Schema, wanted: Sequence[Field]) -> str:
    """Return the `select` that produces the wanted columns from a schema."""
    made = [(field.name, _format_column(schema.get(field.name), field)) for field in wanted]
    if all(quote_name(name) == text for name, text in made):
        return f"[{', '.join(format_flow_scalar(name) for name, _ in made)}]"
    columns = (f"{format_flow_scalar(name)}: {format_flow_scalar(text)}" for name, text in made)
    return f"{{{', '.join(columns)}}}"


def _format_column(field: Field | None, wanted: Field) -> str:
    if field is None:
        return f"cast(null as {wanted.type})"
    name = quote_name(field.name)
    return name if field.type == wanted.type else f"cast({name} as {wanted.type})"


def _make_unique(name: str, used_names: Sequence[str]) -> str:
    while name in used_names:
        name += "_"
    return name
