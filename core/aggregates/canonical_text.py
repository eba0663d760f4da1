"""The canonical text of a call, which is equal for equal calls however they were typed.

    sum( price*2 )   and   SUM(price * 2)   are   sum((price * 2))

It also names the columns of the call in a state: derived from the text of the call, never from its
position, so that a savepoint stays compatible as long as the call exists.
"""

from __future__ import annotations

from headrace.core.expressions.parsing import syntax_tree
from headrace.core.types.data_types import BOOLEAN, INT, NULL, STRING, quote_name


def canonical_text(node: syntax_tree.SyntaxNode) -> str:
    """Return the canonical text of a syntax tree."""
    match node:
        case syntax_tree.Literal():
            return _format_literal(node)
        case syntax_tree.TypedText(text=text, type=type):
            return f"{type} {text!r}"
        case syntax_tree.Name(name=name):
            return quote_name(name)
        case syntax_tree.Member(base=base, name=name):
            return f"{canonical_text(base)}.{quote_name(name)}"
        case syntax_tree.MethodCall(call=call):
            return call
        case syntax_tree.Cast(operand=operand, type=type, is_try=attempt):
            return f"{'try_' if attempt else ''}cast({canonical_text(operand)} as {type})"
        case syntax_tree.CallNode():
            return _format_call(node)
        case syntax_tree.FramedCall(call=call, frame=frame):
            return f"{canonical_text(call)} over ({frame or ''})"
        case syntax_tree.Lambda(parameters=parameters, body=body):
            return f"({', '.join(map(quote_name, parameters))}) -> {canonical_text(body)}"
    return "*"


def _format_literal(node: syntax_tree.Literal) -> str:
    if node.type in (INT, STRING):
        return repr(node.value)
    if node.type in (BOOLEAN, NULL):
        return "null" if node.value is None else str(node.value).lower()
    return f"{node.type} {node.value!r}"


def _format_call(node: syntax_tree.CallNode) -> str:
    parts = [canonical_text(argument) for argument in node.arguments]
    if len(parts) == 2 and not node.name.isidentifier():
        return f"({parts[0]} {node.name} {parts[1]})"
    where = f" filter (where {canonical_text(node.filter)})" if node.filter else ""
    order = ", ".join(map(_format_sort_item, node.within_group))
    within = f" within group (order by {order})" if order else ""
    distinct = "distinct " if node.is_distinct else ""
    return f"{node.name}({distinct}{', '.join(parts)}){within}{where}"


def _format_sort_item(item: syntax_tree.SortItem) -> str:
    direction = "desc" if item.is_descending else "asc"
    nulls = "" if item.nulls_last == item.is_descending else " nulls last"
    if item.is_descending and not item.nulls_last:
        nulls = " nulls first"
    return f"{canonical_text(item.expression)} {direction}{nulls}"
