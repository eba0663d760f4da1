"""The rows of `values`, as an `explode` of the table of one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from headrace.core.expressions.coercion import common_type_of_all
from headrace.core.expressions.parsing.syntax_tree import SyntaxNode
from headrace.core.pipeline.fields import Explode
from headrace.core.pipeline.text import TextPart
from headrace.core.plan.columns import KnownColumns, type_expression
from headrace.core.plan.sql.items import refuse_aggregates, write_select
from headrace.core.plan.sql.scope import Scope
from headrace.core.plan.sql.steps import Draft, StepWriter
from headrace.core.plan.sql.texts import QueryTexts, RejectedQuery, build_all
from headrace.core.sql.row_table import ROW_TABLE
from headrace.core.sql.syntax_tree import Values
from headrace.core.types.data_types import NULL, Schema, Type, quote_name

Row: TypeAlias = Sequence[Type | None]
"""The types of the values of a row; None for an invalid one."""


def build_values(body: Values, writer: StepWriter, texts: QueryTexts) -> Draft:
    """Return the draft of the rows of `values`, with the columns col1, col2 and so on, each of a
    type that fits all rows. Raises RejectedQuery."""
    _check_widths(body, texts)
    typed = [[_type_cell(cell, texts) for cell in row] for row in body.rows]
    types = build_all(range(len(typed[0])), lambda at: _find_type(body, at, typed, texts))
    names = [f"col{at}" for at, _ in enumerate(types, 1)]
    parts = [*_list_parts(body, typed, names, types)]
    relation = writer.find_source(ROW_TABLE, "", body.span)
    draft = Draft(
        (relation,), Scope(), ("values",), places={"explode": body.span, "select": body.span}
    )
    draft.clauses["explode"] = Explode(None, texts.written.text.compose(parts))
    draft.columns = [(n, texts.name(quote_name(n), body.span), body.span) for n in names]
    draft.clauses["select"] = write_select(draft.columns, texts)
    return draft


def _check_widths(body: Values, texts: QueryTexts) -> None:
    width, failed = len(body.rows[0]), False
    for row in body.rows[1:]:
        if len(row) != width:
            message = f"wanted {width} values, as in the first row, got {len(row)}"
            hint = "all rows of values have equally many columns; null stands for no value"
            texts.add_error(message, row[0].span.extend_to(row[-1].span), hint)
            failed = True
    if failed:
        raise RejectedQuery


def _type_cell(cell: SyntaxNode, texts: QueryTexts) -> Type | None:
    """Return the type of a value; None if it is invalid, which is reported."""
    if refuse_aggregates("values", cell, texts):
        return None
    try:
        text = texts.write(cell, Scope())
    except RejectedQuery:
        return None
    typed = type_expression(text, KnownColumns(Schema(())), texts.report)
    return None if typed is None else typed.type


def _find_type(body: Values, at: int, typed: Sequence[Row], texts: QueryTexts) -> Type:
    """Return the type that fits the values of a column. Raises RejectedQuery."""
    found: Type = NULL
    for row, types in zip(body.rows, typed, strict=True):
        type = types[at]
        wider = None if type is None else common_type_of_all([found, type])
        if type is not None and wider is None:
            message = f"column {at + 1} of values is {found} in the rows before, got {type}"
            raise texts.reject(message, row[at].span, f"cast it: cast(... as {found}), or those")
        found = found if wider is None else wider
    if any(types[at] is None for types in typed):
        raise RejectedQuery
    if found == NULL:
        message = f"column {at + 1} of values needs a type, and null has none"
        raise texts.reject(message, body.rows[0][at].span, "give it a type: cast(null as string)")
    return found


def _list_parts(
    body: Values, typed: Sequence[Row], names: Sequence[str], types: Sequence[Type]
) -> Iterator[TextPart]:
    """Yield the parts of the call of the generator that makes the rows."""
    at = body.span.start
    before = "inline(array("
    for row, own in zip(body.rows, typed, strict=True):
        before += "named_struct("
        for node, cell, name, type in zip(row, own, names, types, strict=True):
            is_same = cell == type
            yield TextPart(at, node.span.start, f"{before}'{name}', {'' if is_same else 'cast('}")
            yield TextPart(node.span.start, node.span.end)
            at = node.span.end
            before = ", " if is_same else f" as {type}), "
        before = before.removesuffix(", ") + "), "
    yield TextPart(at, body.span.end, before.removesuffix(", ") + "))")
