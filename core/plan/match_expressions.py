"""Conditions of variables and columns of matches, rewritten as aggregates over matched rows.

`up.price` becomes `last(price) filter (where __variable = 'up')`, and `count(up)` counts those
rows; without a variable, as in `last(price)`, an aggregate is over all matched rows. The columns of
the tested row stay as they are: they are the key of such a group.

Tests: tests/core/plan/test_matches.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.parsing import syntax_tree
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.pipeline.text import Text
from headrace.core.plan.columns import KnownColumns, PlanProblems, type_aggregate
from headrace.core.plan.nodes.matches import VARIABLE
from headrace.core.types.data_types import BIGINT, BOOLEAN, STRING, Field, Schema, is_numeric
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateExpression

MATCH_FUNCTIONS = ("first", "last", "count", "sum", "min", "max", "avg", "collect_list")
"""The aggregates over the rows of a variable."""
ROW_FUNCTION_HINTS: Mapping[str, str] = {
    **dict.fromkeys(("prev", "lag"), "a.price is that of the last row of a before the tested one"),
    **dict.fromkeys(("next", "lead"), "compare the rows in the condition of the later one"),
    "classifier": "all_rows: true emits the rows of a match with their variable",
    "match_number": "a match is known by its key and match_start",
}
"""Functions of MATCH_RECOGNIZE and of `over`, with what is here in their place."""


def type_match_condition(
    text: Text, variables: Collection[str], known: KnownColumns, report: PlanProblems
) -> AggregateExpression | None:
    """Return the typed condition of a variable; None if it is invalid, which is reported."""
    writer = _ReferenceWriter(variables, known, reads_row=True)
    typed = type_aggregate(text, _add_variable(known), known, report, writer.rewrite)
    if typed is not None and typed.type != BOOLEAN:
        message = f"wanted a condition (boolean), got {typed.type}"
        report.add(message, text.locate(), "compare it")
        return None
    return typed


def type_match_column(
    text: Text,
    variables: Collection[str],
    negated: Collection[str],
    known: KnownColumns,
    report: PlanProblems,
) -> AggregateExpression | None:
    """Return a typed column of a match; None if it is invalid, which is reported."""
    writer = _ReferenceWriter(variables, known, reads_row=False, negated=negated)
    keys = KnownColumns(Schema(()), known.broken_names, known.is_open)
    return type_aggregate(text, _add_variable(known), keys, report, writer.rewrite)


def _add_variable(known: KnownColumns) -> KnownColumns:
    schema = Schema((*known.schema, Field(VARIABLE, STRING, nullable=False)))
    return replace(known, schema=schema, has_row_place=False)


@dataclass(frozen=True, slots=True)
class _ReferenceWriter:
    """Rewrites references to the rows of variables as calls of aggregates."""

    variables: Collection[str]
    known: KnownColumns
    reads_row: bool
    """Whether columns without a variable are those of the tested row."""
    negated: Collection[str] = ()
    """Variables that have no rows."""

    def rewrite(self, tree: syntax_tree.SyntaxNode) -> syntax_tree.SyntaxNode:
        """Return the tree with its references rewritten. Raises ExpressionError."""
        return syntax_tree.replace_nodes(tree, self._replace)

    def _replace(
        self, node: syntax_tree.SyntaxNode, bound: frozenset[str]
    ) -> syntax_tree.SyntaxNode | None:
        match node:
            case syntax_tree.CallNode() if self._is_aggregate(node.name):
                return self._rewrite_call(node)
            case syntax_tree.CallNode(name=name) if name in ROW_FUNCTION_HINTS:
                message = f"{name} is not computed over the rows of a match"
                raise ExpressionError(message, node.name_span, ROW_FUNCTION_HINTS[name])
            case syntax_tree.Member(base=syntax_tree.Name(name=name)) if (
                name in self.variables and name not in bound
            ):
                return self._call_last(node, name)
            case syntax_tree.Member(base=syntax_tree.Name(name=name)) if (
                name not in bound
                and name not in self.known.schema
                and not self.known.may_have(name)
            ):
                if name in self.negated:
                    raise self._reject_negated(name, node.span)
                message = f'the pattern has no variable "{name}"'
                hint = f"its variables are {', '.join(self.variables)}"
                near = suggest_name(name, tuple(self.variables))
                raise ExpressionError(message, node.span, near or hint)
            case syntax_tree.Name(name=name) if name in self.variables and name not in bound:
                message = f'"{name}" is a variable, which is no value'
                raise ExpressionError(message, node.span, self._suggest_value(name))
            case syntax_tree.Name(name=name) if name not in bound and not self.reads_row:
                self._refuse_column(node)
        return None

    def _is_aggregate(self, name: str) -> bool:
        from headrace.core.aggregates.table import AGGREGATES

        return name in AGGREGATES

    def _suggest_value(self, name: str) -> str:
        column = next(iter(self.known.schema.names), "column")
        values = f"write {name}.{column}, the value of its last row, or count({name})"
        return f"{values}; text goes in quotes: '{name}'"

    def _refuse_column(self, node: syntax_tree.Name) -> None:
        """Raise the error of a column of no variable, if it is one."""
        if node.name in self.known.schema:
            variable = next(iter(self.variables), "a")
            message = f'"{node.name}" has a value in each row of the match'
            hint = f"name a variable: {variable}.{node.name}, or first({variable}.{node.name})"
            raise ExpressionError(message, node.span, hint)

    def _call_last(self, node: syntax_tree.Member, variable: str) -> syntax_tree.SyntaxNode:
        column = syntax_tree.Name(node.name_span, node.name)
        return self._make_call(node.span, "last", (column,), variable)

    def _make_call(
        self,
        span: Span,
        name: str,
        arguments: tuple[syntax_tree.SyntaxNode, ...],
        variable: str | None,
    ) -> syntax_tree.CallNode:
        """Return the call of an aggregate over the rows of a variable; None: over all rows."""
        if variable is None:
            return syntax_tree.CallNode(span, name, span, arguments)
        sides = (syntax_tree.Name(span, VARIABLE), syntax_tree.Literal(span, variable, STRING))
        condition = syntax_tree.CallNode(span, "=", span, sides)
        return syntax_tree.CallNode(span, name, span, arguments, filter=condition)

    def _rewrite_call(self, node: syntax_tree.CallNode) -> syntax_tree.SyntaxNode:
        if node.name not in MATCH_FUNCTIONS:
            message = f"{node.name} is not computed over the rows of a variable"
            hint = f"the functions are {', '.join(MATCH_FUNCTIONS)}"
            raise ExpressionError(message, node.name_span, hint)
        if node.is_distinct or node.filter or node.within_group:
            message = f"{node.name} is over all rows of a variable here"
            hint = "leave out distinct, filter and within group"
            raise ExpressionError(message, node.span, hint)
        arguments = node.arguments
        match arguments:
            case (syntax_tree.Star(),) if node.name == "count":
                return node
            case (syntax_tree.Name(name=name),) if node.name == "count" and name in self.variables:
                star = (syntax_tree.Star(arguments[0].span),)
                return self._make_call(node.span, "count", star, name)
            case (value, default) if node.name in ("first", "last"):
                return self._rewrite_default(node, value, default)
            case (value,):
                variable = self._find_variable(node, value)
                inner = syntax_tree.replace_nodes(value, partial(_drop_variable, variable))
                return self._make_call(node.span, node.name, (inner,), variable)
        message = f"{node.name} takes one argument, got {len(arguments)}"
        raise ExpressionError(message, node.span, f"as in {self._give_example(node.name)}")

    def _rewrite_default(
        self,
        node: syntax_tree.CallNode,
        value: syntax_tree.SyntaxNode,
        default: syntax_tree.SyntaxNode,
    ) -> syntax_tree.SyntaxNode:
        """Return `last(x.c, default)` as a choice by the number of rows of x."""
        variable = self._find_variable(node, value)
        inner = syntax_tree.replace_nodes(value, partial(_drop_variable, variable))
        call = self._make_call(node.span, node.name, (inner,), variable)
        count = self._make_call(node.span, "count", (syntax_tree.Star(node.span),), variable)
        none = syntax_tree.Literal(node.span, 0, BIGINT)
        has_rows = syntax_tree.CallNode(node.span, ">", node.span, (count, none))
        branches = (has_rows, call, self.rewrite(default))
        return syntax_tree.CallNode(node.span, "if", node.span, branches)

    def _find_variable(
        self, node: syntax_tree.CallNode, value: syntax_tree.SyntaxNode
    ) -> str | None:
        """Return the one variable whose rows an argument reads; None if it reads those of all.

        Raises ExpressionError.
        """
        found, columns = dict[str, syntax_tree.Name](), list[syntax_tree.Name]()
        for name in syntax_tree.find_free_names(value):
            if name.name in self.variables:
                found.setdefault(name.name, name)
            elif name.name in self.known.schema or self.known.may_have(name.name):
                columns.append(name)
        if found and columns:
            message = f'{node.name}: "{columns[0].name}" is a column of no variable'
            hint = f"write {next(iter(found))}.{columns[0].name}"
            raise ExpressionError(message, columns[0].span, hint)
        if columns:
            return None
        if len(found) > 1:
            names = " and ".join(found)
            message = f"{node.name} is over the rows of one variable, got {names}"
            raise ExpressionError(message, node.span, "call it once for each variable")
        if not found:
            raise self._reject_argument(node, value)
        return next(iter(found))

    def _reject_argument(
        self, node: syntax_tree.CallNode, value: syntax_tree.SyntaxNode
    ) -> ExpressionError:
        """Return the error of a function whose argument reads no variable and no column."""
        example = f"as in {self._give_example(node.name)}"
        free = next(iter(syntax_tree.find_free_names(value)), None)
        if free is None:
            return ExpressionError(f"{node.name} wants a value of a variable", node.span, example)
        if free.name in self.negated:
            return self._reject_negated(free.name, free.span)
        near = suggest_name(free.name, (*self.variables, *self.known.schema.names))
        message = f'"{free.name}" is neither a variable nor a column'
        return ExpressionError(message, free.span, near or example)

    def _reject_negated(self, name: str, span: Span) -> ExpressionError:
        hint = f"the variables with rows are {', '.join(self.variables)}"
        return ExpressionError(f'"{name}" is negated: it has no row', span, hint)

    def _give_example(self, function: str) -> str:
        fields = self.known.schema
        numbers = [field.name for field in fields if is_numeric(field.type)]
        names = numbers if function in ("sum", "avg") else fields.names
        column = next(iter(names), "price")
        return f"{function}({next(iter(self.variables), 'a')}.{column})"


def _drop_variable(
    variable: str | None, node: syntax_tree.SyntaxNode, bound: frozenset[str]
) -> syntax_tree.SyntaxNode | None:
    """Return the column c for `x.c`, for one variable x; None: there is none."""
    match node:
        case syntax_tree.Member(base=syntax_tree.Name(name=name)) if (
            name == variable and name not in bound
        ):
            return syntax_tree.Name(node.name_span, node.name)
        case syntax_tree.Name(name=name) if name == variable and name not in bound:
            message = f'"{name}" is a variable, which is no value'
            raise ExpressionError(message, node.span, f"write {name}.column, or count({name})")
    return None
