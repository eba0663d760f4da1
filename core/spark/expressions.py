"""Expressions and aggregates of a plan in Spark's SQL: the user's text, if it means the same there.

The function table says if a function does not (`FunctionCall.spark`); nor does an expression that
reads the processing time. Then headrace's operator does the whole operation inside the executors.
Types are a second check: Spark's analyser must give exactly headrace's types (`types_match`). No
text contains a secret, which would be visible in Spark's plans: an expression with one is rejected.

An aggregate with another meaning in Spark has a form in the table of aggregates
(`AggregateCall.spark`): one that depends on the order of rows names the order, which Spark leaves
open. Key columns outside of calls have the names used while rows are grouped: `key: {at:
to_date(at)}` may name a key column like a column that an aggregate reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.core.aggregates import AGGREGATES, AggregateCall
from headrace.core.aggregates.aggregate_resolver import build_call_name
from headrace.core.expressions.parsing import syntax_tree
from headrace.core.expressions.parsing.parser import parse_expression
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    ColumnReference,
    FunctionCall,
    ProcessingTime,
    Span,
    TypedExpression,
    walk,
)
from headrace.core.plan import nodes
from headrace.core.spark.columns import quote_column, to_spark_type
from headrace.core.spark.spark_log import silence_pyspark
from headrace.core.types.data_types import (
    ATOMS,
    Array,
    Decimal,
    Field,
    MapType,
    Struct,
    Time,
    Type,
    strip_nullability,
)
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


T = TypeVar("T")


def translate_column(column: nodes.ComputedColumn) -> str | None:
    """Return the SQL of a computed column or key; None if Spark would compute another value."""
    return translate_expression(column.text, column.value)


def translate_expression(
    text: str, *meanings: TypedExpression, is_join: bool = False
) -> str | None:
    """Return the SQL that Spark runs for a text of the plan and all its typed expressions; None if
    Spark cannot. An empty text stands for a plain column.

    After a join its sides have no names in Spark, so `side.column` becomes the name of the column.
    `is_join`: it is the condition of the join itself.
    """
    if not all(map(is_native, meanings)):
        return None
    if not text:
        (column,) = meanings
        assert isinstance(column, ColumnReference), column
        return quote_column(column.name)
    forms = {node.span: node.spark for each in meanings for node in _find_calls(each) if node.spark}
    found = (node for each in meanings for node in walk(each) if isinstance(node, ColumnReference))
    columns = {c.span: quote_column(c.name) for c in found if not is_join or "." in c.name}

    def rewrite(node: syntax_tree.SyntaxNode) -> str:
        if isinstance(node, syntax_tree.Member) and node.span in columns:
            return columns[node.span]
        return render_node(text, node, forms, rewrite)

    translated = rewrite(parse_expression(text)) if forms or columns else text
    return (
        f"{translated}\n" if "--" in translated else translated
    )  # so that more may follow a comment


def is_native(typed: TypedExpression) -> bool:
    """Whether Spark gives the same value for any row."""
    if any(to_spark_type(node.type) != node.type for node in walk(typed)):
        return False
    ours = any(call.spark == NO_SPARK_FORM for call in _find_calls(typed))
    return not ours and not any(isinstance(node, ProcessingTime) for node in walk(typed))


def _find_calls(typed: TypedExpression) -> Iterator[FunctionCall]:
    return (node for node in walk(typed) if isinstance(node, FunctionCall))


def render_node(
    text: str,
    node: syntax_tree.SyntaxNode,
    forms: Mapping[Span, str],
    render: Callable[[syntax_tree.SyntaxNode], str],
) -> str:
    """Return a node's text: its children by `render`, calls in their Spark form."""
    form = forms.get(node.span) if isinstance(node, syntax_tree.CallNode) else None
    if form is not None:
        return form.format(*map(render, syntax_tree.child_nodes(node)))
    parts, at = "", node.span.start
    for child in sorted(syntax_tree.child_nodes(node), key=lambda child: child.span.start):
        parts += text[at : child.span.start] + render(child)
        at = child.span.end
    return parts + text[at : node.span.end]


def try_analysis(make: Callable[[], T | None]) -> T | None:
    """Return the result of `make`; None if Spark's analyser rejects a text that headrace accepts.

    Such texts are rare: a comment inside a comment, a bracket that Spark takes for that of a type.
    """
    from pyspark.errors import AnalysisException

    try:
        with silence_pyspark():
            return make()
    except AnalysisException:
        return None


def types_match(rows: DataFrame, columns: Mapping[str, Type]) -> bool:
    """Whether Spark's rows have exactly these columns, in this order and of these types."""
    fields = rows.schema.fields
    if [field.name for field in fields] != list(columns):
        return False
    types = zip(
        (from_spark_type(field.dataType) for field in fields), columns.values(), strict=True
    )
    return all(ours == strip_nullability(wanted) for ours, wanted in types)


def from_spark_type(type: DataType) -> Type | None:
    """Convert Spark's type to headrace's, all nullable; None if there is no such type."""
    from pyspark.sql import types as spark

    match type:
        case spark.TimeType():
            return Time(type.precision)
        case spark.DecimalType():
            return Decimal(type.precision, type.scale)
        case spark.ArrayType():
            element = from_spark_type(type.elementType)
            return Array(element) if element else None
        case spark.MapType():
            key, value = from_spark_type(type.keyType), from_spark_type(type.valueType)
            return MapType(key, value) if key and value else None
        case spark.StructType():
            inside = [(field.name, from_spark_type(field.dataType)) for field in type.fields]
            fields = tuple(Field(name, inner) for name, inner in inside if inner)
            return Struct(fields) if len(fields) == len(inside) else None
    return ATOMS.get(type.simpleString())


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

    def translate_result(
        self, node: syntax_tree.SyntaxNode, bound: frozenset[str] = frozenset()
    ) -> str:
        """Return the SQL of a node over calls and keys; `bound` are parameters of lambdas."""
        match node:
            case syntax_tree.Name(name=name) if name not in bound:
                return quote_column(self.keys[name])
            case syntax_tree.CallNode(name=name) if name in AGGREGATES:
                return self._translate_call(node)
            case syntax_tree.Lambda(parameters=parameters):
                bound = bound.union(parameters)
        render = partial(self.translate_result, bound=bound)
        return render_node(self.text, node, self.functions, render)

    def _translate_call(self, node: syntax_tree.CallNode) -> str:
        form = self.calls[build_call_name(node)].spark
        if not form:
            return self._translate_argument(node)
        where = f" filter (where {self._translate_argument(node.filter)})" if node.filter else ""
        distinct = "distinct " if node.is_distinct else ""
        order = (item.expression for item in node.within_group)
        arguments = map(self._translate_argument, (*node.arguments, *order))
        return form.format(*arguments, filter=where, distinct=distinct)

    def _translate_argument(self, node: syntax_tree.SyntaxNode) -> str:
        """Return the SQL of a node over rows."""
        return render_node(self.text, node, self.functions, self._translate_argument)
