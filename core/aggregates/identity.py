"""The canonical text of a call, which is equal for equal calls however they were typed.

    sum( price*2 )   and   SUM(price * 2)   are   sum((price * 2))

It also names the columns of the call in a state: derived from the text of the call, never from its
position, so that a savepoint stays compatible as long as the call exists.
"""

from __future__ import annotations

from headrace.core.expressions import syntax
from headrace.core.types import BOOLEAN, INT, NULL, STRING, quoted


def identity(node: syntax.Node) -> str:
    """Return the canonical text of a syntax tree."""
    match node:
        case syntax.Literal():
            return _literal(node)
        case syntax.TypedText(text=text, type=type):
            return f"{type} {text!r}"
        case syntax.Name(name=name):
            return quoted(name)
        case syntax.Member(base=base, name=name):
            return f"{identity(base)}.{quoted(name)}"
        case syntax.Cast(operand=operand, type=type, attempt=attempt):
            return f"{'try_' if attempt else ''}cast({identity(operand)} as {type})"
        case syntax.Call():
            return _call(node)
        case syntax.Lambda(parameters=parameters, body=body):
            return f"({', '.join(parameters)}) -> {identity(body)}"
    return "*"


def _literal(node: syntax.Literal) -> str:
    if node.type in (INT, STRING):
        return repr(node.value)
    if node.type in (BOOLEAN, NULL):
        return "null" if node.value is None else str(node.value).lower()
    return f"{node.type} {node.value!r}"


def _call(node: syntax.Call) -> str:
    parts = [identity(argument) for argument in node.arguments]
    if len(parts) == 2 and not node.name.isidentifier():
        return f"({parts[0]} {node.name} {parts[1]})"
    where = f" filter (where {identity(node.filter)})" if node.filter else ""
    return f"{node.name}({'distinct ' if node.distinct else ''}{', '.join(parts)}){where}"
