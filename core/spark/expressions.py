"""The expressions of a plan as Spark runs them: the user's own text, where it means there the same.

It does not where a function of it says so in the table (`Apply.spark`), and where it reads the
processing time. Then the whole operation is done by our own operator inside the executors. What the
text does not tell, the types do: Spark's analyser must give the very types of ours (`types_match`).
No text holds a secret, which would be seen in Spark's plans: an expression with one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from headrace.core.expressions import syntax
from headrace.core.expressions.parser import parse
from headrace.core.expressions.typed import (
    OURS,
    Apply,
    Column,
    ProcessingTime,
    Span,
    Typed,
    walk,
)
from headrace.core.spark.columns import quoted
from headrace.core.spark.quiet import unwritten
from headrace.core.types import ATOMS, Array, Decimal, Field, Struct, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from headrace.core.plan import nodes

T = TypeVar("T")


def column_sql(column: nodes.Computed) -> str | None:
    """A computed column, or a key; None where Spark cannot compute it as we do."""
    return sql(column.text, column.value)


def sql(text: str, *meanings: Typed) -> str | None:
    """What Spark runs for a text of the plan with all that it was typed as; None where that is
    nothing. The text of a column as it is, is empty."""
    if not all(map(is_native, meanings)):
        return None
    if not text:
        (column,) = meanings
        assert isinstance(column, Column), column
        return quoted(column.name)
    forms = {node.span: node.spark for each in meanings for node in _calls(each) if node.spark}
    tables = {c.span: quoted(c.name) for each in meanings for c in _of_tables(each)}

    def rewritten(node: syntax.Node) -> str:
        if isinstance(node, syntax.Member) and node.span in tables:
            return tables[node.span]
        return with_form(text, node, forms, rewritten)

    said = rewritten(parse(text)) if forms or tables else text
    return f"{said}\n" if "--" in said else said  # so that more may stand behind a comment


def is_native(typed: Typed) -> bool:
    """Whether Spark gives the same for it, whatever the rows."""
    ours = any(call.spark == OURS for call in _calls(typed))
    return not ours and not any(isinstance(node, ProcessingTime) for node in walk(typed))


def _of_tables(typed: Typed) -> Iterator[Column]:
    """Columns behind a join that are written with its name, and called so."""
    return (n for n in walk(typed) if isinstance(n, Column) and "." in n.name)


def _calls(typed: Typed) -> Iterator[Apply]:
    return (node for node in walk(typed) if isinstance(node, Apply))


def with_form(
    text: str, node: syntax.Node, forms: Mapping[Span, str], said: Callable[[syntax.Node], str]
) -> str:
    """The text of a node, with what is `said` for those in it; a call that has a form in that."""
    form = forms.get(node.span) if isinstance(node, syntax.Call) else None
    if form is not None:
        return form.format(*map(said, syntax.children(node)))
    parts, at = "", node.span.start
    for child in sorted(syntax.children(node), key=lambda child: child.span.start):
        parts += text[at : child.span.start] + said(child)
        at = child.span.end
    return parts + text[at : node.span.end]


def attempted(make: Callable[[], T | None]) -> T | None:
    """What is made of Spark's rows; None where its analyser refuses a text that we understand.

    There are few: a comment inside of a comment, a bracket that it takes for that of a type.
    """
    from pyspark.errors import AnalysisException

    try:
        with unwritten():
            return make()
    except AnalysisException:
        return None


def types_match(rows: DataFrame, columns: Mapping[str, Type]) -> bool:
    """Whether Spark's rows have just these columns, in this order and of these types."""
    fields = rows.schema.fields
    if [field.name for field in fields] != list(columns):
        return False
    types = zip((as_ours(field.dataType) for field in fields), columns.values(), strict=True)
    return all(ours == _bare(wanted) for ours, wanted in types)


def as_ours(type: DataType) -> Type | None:
    """Spark's type as one of ours, if it is one, of which anything may be null."""
    from pyspark.sql import types as spark

    match type:
        case spark.DecimalType():
            return Decimal(type.precision, type.scale)
        case spark.ArrayType():
            element = as_ours(type.elementType)
            return Array(element) if element else None
        case spark.StructType():
            inside = [(field.name, as_ours(field.dataType)) for field in type.fields]
            fields = tuple(Field(name, inner) for name, inner in inside if inner)
            return Struct(fields) if len(fields) == len(inside) else None
    return ATOMS.get(type.simpleString())


def _bare(type: Type) -> Type:
    """The type without what is said of nulls inside of it."""
    match type:
        case Array(element):
            return Array(_bare(element))
        case Struct(fields):
            return Struct(tuple(Field(field.name, _bare(field.type)) for field in fields))
    return type
