"""SQL of aggregates as Spark runs them over the rows of a group.

An aggregate with the same meaning in Spark keeps the user's text. Others have a form in the
table of aggregates (`AggregateCall.spark`): those that depend on the order of rows name the order,
which Spark leaves open. Key columns outside of calls have the names used while rows are
grouped: `key: {at: to_date(at)}` may name a key column like a column that an aggregate reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.aggregates import TABLE, AggregateCall
from headrace.core.aggregates.typing import call_name
from headrace.core.expressions import syntax
from headrace.core.expressions.parser import parse
from headrace.core.expressions.typed import OURS, Apply, Span, walk
from headrace.core.plan import nodes
from headrace.core.spark.columns import quoted
from headrace.core.spark.expressions import is_native, with_form


def aggregate_sql(column: nodes.Aggregated, keys: Mapping[str, str]) -> str | None:
    """Return the SQL of an aggregate, with key columns named by `keys`; None if Spark cannot."""
    expression = column.expression
    calls = {call.name: call for call in expression.calls}
    typed = [expression.finish, *(each.typed for call in expression.calls for each in call.read)]
    if any(call.spark == OURS for call in calls.values()):
        return None
    if not all(map(is_native, typed)):
        return None
    nodes_of = (node for each in typed for node in walk(each) if isinstance(node, Apply))
    functions = {node.span: node.spark for node in nodes_of if node.spark}
    return _Said(column.text, calls, functions, keys).outside(parse(column.text))


@dataclass(frozen=True, slots=True)
class _Said:
    """The translation of one aggregate's text to Spark."""

    text: str
    calls: Mapping[str, AggregateCall]
    functions: Mapping[Span, str]
    """The Spark forms of functions that differ from the user's text, by their span."""
    keys: Mapping[str, str]

    def outside(self, node: syntax.Node) -> str:
        """Return the SQL of a node over calls and keys."""
        match node:
            case syntax.Name(name=name):
                return quoted(self.keys[name])
            case syntax.Call(name=name) if name in TABLE:
                return self._call(node)
        return with_form(self.text, node, self.functions, self.outside)

    def _call(self, node: syntax.Call) -> str:
        form = self.calls[call_name(node)].spark
        if not form:
            return self._inside(node)
        where = f" filter (where {self._inside(node.filter)})" if node.filter else ""
        distinct = "distinct " if node.distinct else ""
        return form.format(*map(self._inside, node.arguments), filter=where, distinct=distinct)

    def _inside(self, node: syntax.Node) -> str:
        """Return the SQL of a node over rows."""
        return with_form(self.text, node, self.functions, self._inside)
