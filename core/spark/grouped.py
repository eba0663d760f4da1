"""SQL of aggregates as Spark runs them over the rows of a group.

An aggregate with the same meaning in Spark keeps the user's text. Others have a form in the
table of aggregates (`AggregateCall.spark`): those that depend on the order of rows name the order,
which Spark leaves open. Key columns outside of calls have the names used while rows are
grouped: `key: {at: to_date(at)}` may name a key column like a column that an aggregate reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.aggregates import AGGREGATES, AggregateCall
from headrace.core.aggregates.typing import build_call_name
from headrace.core.expressions import syntax
from headrace.core.expressions.parser import parse_expression
from headrace.core.expressions.typed import NO_SPARK_FORM, FunctionCall, Span, walk
from headrace.core.plan import nodes
from headrace.core.spark.columns import quote_column
from headrace.core.spark.expressions import is_native, render_node


def translate_aggregate(column: nodes.AggregatedColumn, keys: Mapping[str, str]) -> str | None:
    """Return the SQL of an aggregate, with key columns named by `keys`; None if Spark cannot."""
    expression = column.expression
    calls = {call.name: call for call in expression.calls}
    typed = [
        expression.finish,
        *(each.typed for call in expression.calls for each in call.all_inputs),
    ]
    if any(call.spark == NO_SPARK_FORM for call in calls.values()):
        return None
    if not all(map(is_native, typed)):
        return None
    nodes_of = (node for each in typed for node in walk(each) if isinstance(node, FunctionCall))
    functions = {node.span: node.spark for node in nodes_of if node.spark}
    return _AggregateTranslation(column.text, calls, functions, keys).translate_result(
        parse_expression(column.text)
    )


@dataclass(frozen=True, slots=True)
class _AggregateTranslation:
    """The translation of one aggregate's text to Spark."""

    text: str
    calls: Mapping[str, AggregateCall]
    functions: Mapping[Span, str]
    """The Spark forms of functions that differ from the user's text, by their span."""
    keys: Mapping[str, str]

    def translate_result(self, node: syntax.SyntaxNode) -> str:
        """Return the SQL of a node over calls and keys."""
        match node:
            case syntax.Name(name=name):
                return quote_column(self.keys[name])
            case syntax.CallNode(name=name) if name in AGGREGATES:
                return self._translate_call(node)
        return render_node(self.text, node, self.functions, self.translate_result)

    def _translate_call(self, node: syntax.CallNode) -> str:
        form = self.calls[build_call_name(node)].spark
        if not form:
            return self._translate_argument(node)
        where = f" filter (where {self._translate_argument(node.filter)})" if node.filter else ""
        distinct = "distinct " if node.is_distinct else ""
        return form.format(
            *map(self._translate_argument, node.arguments), filter=where, distinct=distinct
        )

    def _translate_argument(self, node: syntax.SyntaxNode) -> str:
        """Return the SQL of a node over rows."""
        return render_node(self.text, node, self.functions, self._translate_argument)
