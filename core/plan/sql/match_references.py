"""References to the rows of variables in `define` and `measures`, as the clause `match` has them.

In SQL, the rows of a variable include the tested row in the condition of that variable, and so do
all rows, which a reference without a variable means. In `match` they are those matched before it.
So `last(up.price)` in the condition of `up` becomes `price`, `last(up.price, 1)` becomes
`last(up.price)`, and an aggregate is extended by the value of the tested row.

`prev` reads the row before the tested one, whether it is matched or not. In a pattern of adjacent
rows it is the last matched row, except for the first row of a match, where it is refused.

Tests: tests/core/plan/sql/test_match_tables.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Literal,
    Member,
    Name,
    Star,
    SyntaxNode,
    find_free_names,
)
from headrace.core.expressions.typed import ExpressionError
from headrace.core.patterns.automaton import Automaton
from headrace.core.pipeline.fields import Assignment
from headrace.core.plan.nodes import VARIABLE_FIELD
from headrace.core.plan.sql.items import is_aggregate
from headrace.core.plan.sql.scope import Scope
from headrace.core.plan.sql.texts import QueryTexts, Replace
from headrace.core.sql.syntax_tree import SelectItem
from headrace.core.types.data_types import INT, quote_name
from headrace.core.types.lazy_dataclass import dataclass

_WITH_ROW = {
    "sum": "coalesce(sum({rows}) + {row}, sum({rows}), {row})",
    "count": "(count({rows}) + nvl2({row}, 1, 0))",
    "min": "least(min({rows}), {row})",
    "max": "greatest(max({rows}), {row})",
    "avg": "(coalesce(sum({rows}) + {row}, sum({rows}), {row})"
    " / (count({rows}) + nvl2({row}, 1, 0)))",
    "first": "first({rows}, {row})",
}
"""Aggregates of rows matched before, and of the tested row."""
_OF_ROW = {"count": "nvl2({row}, 1, 0)", "avg": "cast({row} as double)"}
"""Aggregates of the tested row alone, where they are not its value."""
_MODES = ("final", "running")
_OFFSET_FUNCTIONS = ("first", "last", "prev")
_WHOLE_FUNCTIONS = (*_OFFSET_FUNCTIONS, *_MODES, "match_rowtime")
_HINTS: Mapping[str, str] = {
    "next": "compare the rows in the condition of the later variable",
    "classifier": "all rows per match has it as a measure",
    "match_number": "the columns of partition by and match_rowtime() tell matches apart",
    "match_proctime": "select current_timestamp() from the matches",
    "match_rowtime": "it is a measure; a condition reads the column of order by",
    "final": "a condition knows the rows up to the tested one: leave it out",
    "prev": "measures read the rows of variables, as in last(a.price)",
}


@dataclass(frozen=True, slots=True)
class MatchReferences:
    """Writes the conditions of variables, and measures; `time` is the expression of `order by`."""

    texts: QueryTexts
    scope: Scope
    names: tuple[str, ...]
    """The variables of the pattern."""
    automaton: Automaton
    time: SyntaxNode

    def write_measure(self, item: SelectItem) -> Assignment:
        """Return a column of a match. Raises RejectedQuery."""
        return self._assign(item, self._find_in_measure)

    def write_row_measure(self, item: SelectItem) -> Assignment:
        """Return a column of a row of `all rows per match`. Raises RejectedQuery."""
        return self._assign(item, self._find_in_row)

    def write_condition(self, item: SelectItem) -> Assignment:
        """Return the condition of a variable. Raises RejectedQuery."""
        if item.name not in self.names:
            message = f'define: the pattern has no variable "{item.name}"'
            raise self.texts.reject(message, item.name_span, self._suggest_variable(item.name))
        return self._assign(item, partial(self._find_in_condition, item.name))

    def _assign(self, item: SelectItem, find: Replace) -> Assignment:
        text = self.texts.write(item.expression, self.scope, find)
        return Assignment(self.texts.name(item.name, item.name_span), text)

    def _find_in_measure(self, node: SyntaxNode, bound: frozenset[str]) -> str | None:
        match node:
            case CallNode(name=name, arguments=(operand,)) if name in _MODES:
                return self._write(operand, self._find_in_measure)
            case CallNode(name="match_rowtime", arguments=arguments):
                return f"last({self._write_time(node, *arguments)})"
            case CallNode(name="first" | "last"):
                return self._write_nth(node.name, *self._read_offset(node, 0))
            case CallNode() if is_aggregate(node):
                return self._write_call(node)
            case Name() | Member():
                text = self._find_matched(node, bound)
                column = None if text else self.scope.find(node, bound)
                return text if column is None else f"last({column.text})"
        _refuse_call(node, "measures")
        return None

    def _find_in_row(self, node: SyntaxNode, bound: frozenset[str]) -> str | None:
        match node:
            case CallNode(name="classifier", arguments=()):
                return VARIABLE_FIELD.name
            case CallNode(name=name) if name in _WHOLE_FUNCTIONS or is_aggregate(node):
                pass
            case Name() | Member() if self._find_matched(node, bound):
                pass
            case _:
                _refuse_call(node, "measures")
                return None
        what = self.texts.cut(node.span)
        message = f"{what} is a value of the whole match, and all rows per match has its rows"
        hint = "its measures read the columns of one row, and classifier()"
        raise ExpressionError(message, node.span, hint)

    def _find_in_condition(
        self, variable: str, node: SyntaxNode, bound: frozenset[str]
    ) -> str | None:
        match node:
            case CallNode(name="running", arguments=(operand,)):
                return self._write(operand, partial(self._find_in_condition, variable))
            case CallNode(name=name) if name in _OFFSET_FUNCTIONS:
                return self._write_offset(node, variable)
            case CallNode() if is_aggregate(node):
                return self._write_aggregate(node, variable)
        _refuse_call(node, "define")
        return self._find_of_row(variable, node, bound)

    def _find_of_row(self, variable: str, node: SyntaxNode, bound: frozenset[str]) -> str | None:
        """Return the column of the tested row for one of its variable."""
        match node:
            case Member(base=Name(name=name)) if name == variable and name not in bound:
                return self._write_column(node)
        return self._find_matched(node, bound)

    def _find_matched(self, node: SyntaxNode, bound: frozenset[str]) -> str | None:
        """Return the text of a reference to the rows of a variable."""
        match node:
            case Member(base=Name(name=name)) if name in self.names and name not in bound:
                return f"{quote_name(name)}.{self._write_column(node)}"
            case Member(base=Name(name=name) as base) if not (
                name in (*bound, *self.scope.tables) or self.scope.has(base)
            ):
                message = f'the pattern has no variable "{name}"'
                raise ExpressionError(message, base.span, self._suggest_variable(name))
            case Name(name=name) if name in self.names and name not in bound:
                return quote_name(name)
        return None

    def _suggest_variable(self, name: str) -> str:
        return suggest_name(name, self.names) or f"its variables are {', '.join(self.names)}"

    def _write_column(self, node: Member) -> str:
        column = self.scope.find(Name(node.name_span, node.name))
        return quote_name(node.name) if column is None else column.text

    def _write(self, node: SyntaxNode, find: Replace) -> str:
        return self.texts.write(node, self.scope, find).reveal()

    def _write_call(self, node: CallNode) -> str:
        """Return an aggregate over the rows of a match."""
        if node.is_distinct or node.filter or node.within_group:
            return self.texts.cut(node.span)  # `match` refuses it
        arguments = (self._write(each, self._find_matched) for each in node.arguments)
        return f"{node.name}({', '.join(arguments)})"

    def _write_time(self, node: CallNode, *arguments: SyntaxNode) -> str:
        text = self.texts.write(self.time, self.scope)
        for each in arguments:
            if len(arguments) > 1 or self.texts.write(each, self.scope) != text:
                message = "match_rowtime is about the column of order by"
                raise ExpressionError(message, node.span, "write match_rowtime()")
        return text.reveal()

    def _read_offset(self, node: CallNode, default: int) -> tuple[SyntaxNode, int]:
        match node.arguments:
            case (value,):
                return value, default
            case (value, Literal(value=int() as offset, type=type)) if type == INT and offset >= 0:
                return value, offset
        message = f"{node.name} takes a value, and a number of rows"
        raise ExpressionError(message, node.span, f"as in {node.name}(a.price, 1)")

    def _write_offset(self, node: CallNode, variable: str) -> str:
        """Return `first`, `last` or `prev` in the condition of a variable."""
        value, offset = self._read_offset(node, int(node.name == "prev"))
        if node.name == "prev":
            if not self._includes_row(value, variable) or offset != 1:
                message = "prev reads only the row before the tested one"
                hint = f"write {variable}.column, or last(...) of the rows of a variable"
                raise ExpressionError(message, node.span, hint)
            self._check_previous(node, variable)
            return f"last({self._write_row(value, variable)})"
        if not self._includes_row(value, variable):
            return self._write_nth(node.name, value, offset)
        row = self._write_row(value, variable)
        if node.name == "last":
            return row if not offset else self._write_nth("last", value, offset - 1)
        if not offset:
            return self._join_row("first", value, variable)
        owner = self._find_owner(value)
        count = f"count({'*' if owner is None else quote_name(owner)})"
        return f"if({count} = {offset}, {row}, {self._write_nth('first', value, offset)})"

    def _write_nth(self, name: str, value: SyntaxNode, offset: int) -> str:
        """Return the value of a matched row, by its distance from the first or the last one."""
        matched = self._write(value, self._find_matched)
        if not offset:
            return f"{name}({matched})"
        place = offset + 1 if name == "first" else -offset - 1
        # A list leaves out nulls, but not structs of them.
        return f"element_at(collect_list(named_struct('value', {matched})), {place}).value"

    def _check_previous(self, node: CallNode, variable: str) -> None:
        """Check that the row before the one that is tested for a variable is a matched one."""
        options = [o for each in self.automaton.following for o in each]
        number = self.names.index(variable)
        if any(each.variable == number for each in self.automaton.start):
            message = f'prev reads the row before the match, as "{variable}" may have its first row'
            hint = "begin the pattern with a variable that fits any row, as in (before up+)"
            raise ExpressionError(message, node.span, hint)
        if any(each.sign != "next" or each.negated == number for each in options):
            message = "prev is the row before, which ->, => and not may pass over"
            raise ExpressionError(message, node.span, "read the rows of a variable, as in a.price")

    def _write_aggregate(self, node: CallNode, variable: str) -> str:
        """Return an aggregate in the condition of a variable."""
        is_whole = node.is_distinct or node.filter or node.within_group
        if is_whole or len(node.arguments) != 1 or node.name not in _WITH_ROW:
            return self._write_call(node)
        value = node.arguments[0]
        if not self._includes_row(value, variable):
            return self._write_call(node)
        return self._join_row(node.name, value, variable)

    def _join_row(self, name: str, value: SyntaxNode, variable: str) -> str:
        """Return an aggregate of the rows matched before, and of the tested row."""
        rows = self._write(value, self._find_matched)
        of_rows = isinstance(value, Star) or (isinstance(value, Name) and rows == variable)
        row = "1" if of_rows else self._write_row(value, variable)
        before = self._list_before(variable)
        if not (before if self._find_owner(value) is None else variable in before):
            return "1" if of_rows else _OF_ROW.get(name, "{row}").format(row=row)
        return f"({name}({rows}) + 1)" if of_rows else _WITH_ROW[name].format(rows=rows, row=row)

    def _write_row(self, value: SyntaxNode, variable: str) -> str:
        """Return a value of the tested row."""
        text = self._write(value, partial(self._find_of_row, variable))
        return text if isinstance(value, Name | Member) else f"({text})"

    def _list_before(self, variable: str) -> frozenset[str]:
        """Return the variables that may have rows when a row is tested for this one."""
        number = self.names.index(variable)
        return frozenset(self.names[at] for at in self.automaton.find_earlier(number))

    def _find_owner(self, value: SyntaxNode) -> str | None:
        """Return the variable whose rows a value is of; None if it is of all rows."""
        owners, columns = dict[str, Name](), list[Name]()
        for each in find_free_names(value):
            if each.name in self.names:
                owners.setdefault(each.name, each)
            elif self.scope.has(each):
                columns.append(each)
        owner = next(iter(owners), None)
        if owner is not None and (others := [*columns, *list(owners.values())[1:]]):
            message = "a function reads the rows of one variable, or of all"
            hint = f"write {owner}.{columns[0].name}" if columns else "call it once for each"
            raise ExpressionError(message, others[0].span, hint)
        return owner

    def _includes_row(self, value: SyntaxNode, variable: str) -> bool:
        """Whether the tested row is among the rows that a value is of."""
        return self._find_owner(value) in (None, variable)


def _refuse_call(node: SyntaxNode, clause: str) -> None:
    """Refuse the functions of `match_recognize` that `match` does not have."""
    if isinstance(node, CallNode) and node.name in _HINTS:
        message = f"{node.name} is not supported in {clause}"
        raise ExpressionError(message, node.name_span, _HINTS[node.name])
