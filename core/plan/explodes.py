"""The operation of `explode`: of a column, an expression or one of Spark's generators."""

from __future__ import annotations

from headrace.core.expressions.generators import (
    GENERATORS,
    Generator,
    generate_elements,
    split_aliases,
)
from headrace.core.expressions.typed import Span, reference_field
from headrace.core.pipeline import fields
from headrace.core.pipeline.text import Text
from headrace.core.plan.columns import KnownColumns, PlanProblems, type_generator
from headrace.core.plan.nodes import Explode
from headrace.core.types.data_types import Array, Field

_ELEMENT = "__element"
"""The column of an element whose fields are the columns."""

_GENERATOR_HINT = "write explode(...) as item, or one of posexplode, inline, stack, json_tuple"


def build_explode(
    clause: fields.Explode, known: KnownColumns, report: PlanProblems
) -> Explode | None:
    """Return the operation; None if it is invalid, which is reported."""
    if clause.name is not None:
        return _build_named(clause, clause.name, known, report)
    text = clause.array
    end, aliases = split_aliases(text.reveal())
    if text.reveal().split("(")[0].strip().lower() not in GENERATORS:
        report.add(f'wanted a generator, got "{text.printable}"', text.locate(), _GENERATOR_HINT)
        return None
    generator = type_generator(text, known, report, end)
    if generator is None:
        return None
    if aliases and len(aliases) != len(generator.columns):
        names = ", ".join(column.name for column in generator.columns)
        message = f"wanted {len(generator.columns)} names of columns, got {len(aliases)}"
        report.add(message, text.locate(end), f"they are {names} without names of your own")
        return None
    columns = generator.rename(aliases) if aliases else generator.columns
    if not _check_names(text, end, columns, known, report):
        return None
    call = text.printable[: split_aliases(text.printable)[0]]
    return _make_operation(generator, columns, text, call)


def _check_names(
    text: Text, end: int, columns: tuple[Field, ...], known: KnownColumns, report: PlanProblems
) -> bool:
    names = [column.name for column in columns]
    for at, name in enumerate(names):
        if name in names[:at] or name in known.schema:
            kind = "two columns would be called" if name in names[:at] else "there is a column"
            message = f'{kind} "{name}"' + ("" if name in names[:at] else " already")
            call = text.printable[: split_aliases(text.printable)[0]]
            other = ", ".join(f"{each}_{number}" for number, each in enumerate(names, 1))
            report.add(message, text.locate(0, end), f"name the columns: {call} as ({other})")
            return False
    return True


def _build_named(
    clause: fields.Explode, name: Text, known: KnownColumns, report: PlanProblems
) -> Explode | None:
    """Return the operation of one column with a name, as in `{item: items}`."""
    text = clause.array
    if str(name) in known.schema and name != text:
        hint = "give the elements another name"
        report.add(f'there is a column "{name}" already', name.locate(), hint)
    field = known.schema.get(text.reveal())
    if field is not None:
        if not isinstance(field.type, Array):
            message = f'wanted an array to explode, got "{text}" of type {field.type}'
            report.add(message, text.locate())
            return None
        generator: Generator | None = generate_elements(reference_field(field))
    else:
        generator = type_generator(text, known, report)
    if generator is None:
        return None
    if len(generator.columns) > 1:
        names = ", ".join(column.name for column in generator.columns)
        message = f"{text.printable} makes {len(generator.columns)} columns: {names}"
        hint = f"write explode: {text.printable} as ({names})"
        report.add(message, text.locate(), hint)
        return None
    columns = generator.rename([str(name)])
    written = "" if field is not None else text.printable
    return _make_operation(generator, columns, text, "", clause.outer, written)


def _make_operation(
    generator: Generator,
    columns: tuple[Field, ...],
    text: Text,
    call: str,
    outer: bool = False,
    written: str | None = None,
) -> Explode:
    names = tuple(column.name for column in columns)
    position, *rest = names if generator.has_position else ("", *names)
    if written is None or (generator.array_span is not None and written):
        written = _blank_around(text, generator.array_span)
    return Explode(
        _ELEMENT if generator.is_struct else rest[0],
        generator.array,
        outer or generator.outer,
        position,
        tuple(rest) if generator.is_struct else (),
        written,
        call,
    )


def _blank_around(text: Text, span: Span | None) -> str:
    """Return the text with blanks before an expression in it, so that all spans stay as they are.

    A text with a secret is masked, and no expression.
    """
    if text.secret or span is None:
        return text.printable
    return " " * span.start + text.reveal()[span.start : span.end]
