"""The texts of a step's expressions: parts of a query, with names as the step has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from headrace.core.aggregates.canonical_text import canonical_text
from headrace.core.errors.problems import find_nearest_name, suggest_name
from headrace.core.expressions.parsing.lexer import tokenize
from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Member,
    Name,
    SyntaxNode,
    child_nodes,
    replace_nodes,
)
from headrace.core.expressions.typed import ExpressionError, ExpressionErrors, Span
from headrace.core.pipeline.clauses.query import QueryText
from headrace.core.pipeline.text import Text, TextPart
from headrace.core.plan.columns import PlanProblems
from headrace.core.plan.sql.scope import Scope, UnknownColumnError
from headrace.core.sql.syntax_tree import (
    Subquery,
    WindowCall,
    WindowSpec,
    find_subqueries,
    list_table_names,
)
from headrace.core.types.data_types import quote_name

PartT = TypeVar("PartT")
BuiltT = TypeVar("BuiltT")
Replace: TypeAlias = Callable[[SyntaxNode, frozenset[str]], str | None]
"""Returns the text that stands for a node; None to look below it."""

SUBQUERY_HINT = (
    "a query may stand in from, in where as in (...) or exists (...), and as a value in where, "
    "having, select and group by"
)

AROUND_HINT = (
    "in (...) and exists (...) read columns of the query around them in where, and without "
    "aggregates, having, limit and union"
)
"""The hint for a column of the query around."""


WINDOW_NAMES = ("tumble", "hop", "cumulate", "session", "window", "session_window")
"""The windows of `group by`."""


WINDOW_FUNCTIONS = ("row_number", "rank", "dense_rank", "lag", "lead", "nth_value")
"""The functions that are only over windows of rows."""


class RejectedQuery(Exception):
    """A part of a query cannot be built; the reason has been reported, or is outside of it."""


def build_all(parts: Iterable[PartT], build: Callable[[PartT], BuiltT]) -> list[BuiltT]:
    """Build each part, so that the errors of all are reported. Raises RejectedQuery."""
    built, failed = list[BuiltT](), False
    for part in parts:
        try:
            built.append(build(part))
        except RejectedQuery:
            failed = True
    if failed:
        raise RejectedQuery
    return built


class QueryTexts:
    """The text of a query, of which a step's texts are parts; errors in it are reported."""

    def __init__(self, written: QueryText, report: PlanProblems) -> None:
        self.written = written
        self.report = report
        tokens = tokenize(written.text.reveal().rstrip().removesuffix(";"))
        self.words = frozenset(t.value for t in tokens if t.kind in ("word", "quoted"))
        self._aliases = frozenset(each.alias for each in list_table_names(written.query))
        """The names of the tables of all queries."""
        self.table_columns: dict[str, tuple[str, ...]] = {}
        """The columns of tables by their names in the query; steps drop those that it never names.
        """
        self.values: dict[Span, Callable[[Scope], str | None]] = {}
        """The texts of queries that are values, and of conditions with queries, by their places,
        in a scope that has their results."""

    def add_error(self, message: str, span: Span, hint: str = "") -> None:
        """Report an error of a part of the query."""
        self.report.add(message, self.written.text.locate(span.start, span.end), hint)

    def reject(self, message: str, span: Span, hint: str = "") -> RejectedQuery:
        """Report an error, and return the exception to raise."""
        self.add_error(message, span, hint)
        return RejectedQuery()

    def name(self, name: str, span: Span) -> Text:
        """Return a name, at the position of a part of the query."""
        return self.written.name(name, span)

    def read(self, span: Span) -> str:
        """Return the characters of a part of the query."""
        return self.written.text.reveal()[span.start : span.end]

    def cut(self, span: Span) -> str:
        """Return the characters of a part of the query, on one line."""
        return " ".join(self.read(span).split())

    def write(
        self,
        node: SyntaxNode,
        scope: Scope,
        find: Replace | None = None,
        *,
        takes_windows: bool = False,
    ) -> Text:
        """Return the text of an expression over the columns of a scope.

        `find` may replace whole nodes. With `takes_windows`, functions over windows of rows are
        written with their frames alone. Raises RejectedQuery for names that mean no column.
        """
        parts = self.parts(node, scope, find, takes_windows=takes_windows)
        return self.written.text.compose(parts)

    def parts(
        self,
        node: SyntaxNode,
        scope: Scope,
        find: Replace | None = None,
        *,
        takes_windows: bool = False,
    ) -> list[TextPart]:
        """Return the parts of the text of an expression over the columns of a scope."""
        replaced: dict[Span, str] = {}
        errors: dict[tuple[Span, str], ExpressionError] = {}

        def visit(each: SyntaxNode, bound: frozenset[str]) -> SyntaxNode | None:
            try:
                text = find(each, bound) if find else None
                text = text or self._find_value(each, scope)
                if text is None and isinstance(each, WindowCall) and takes_windows:
                    replaced[Span(each.call.span.end, each.span.end)] = self._write_frame(each)
                    for below in child_nodes(each.call):
                        replace_nodes(below, visit, bound)
                    return each
                if text is None:
                    refuse_call(each)
                    column = scope.find(each, bound)
                    if column is None:
                        return None
                    is_same = column.is_written_as(each) and self._is_written(each)
                    text = None if is_same else column.text
            except ExpressionErrors as failed:
                errors.update({(e.span, e.message): e for e in failed.errors})
            except ExpressionError as error:
                error = self._explain_table(each, scope) or self._complete_hint(each, scope, error)
                errors[error.span, error.message] = error
            else:
                if text is not None:
                    replaced[each.span] = text
            return each

        replace_nodes(node, visit)
        if errors:
            for error in errors.values():
                self.add_error(error.message, error.span, error.hint)
            raise RejectedQuery
        return list(_split(node.span, replaced))

    def _explain_table(self, node: SyntaxNode, scope: Scope) -> ExpressionError | None:
        """Return the error of a column of a table that another query has."""
        match node:
            case Member(base=Name(name=table) as base) if table in self._aliases:
                columns = (*scope.columns, *(scope.outer.columns if scope.outer else ()))
                here = dict.fromkeys(each.table for each in columns if each.in_star)
                if table in here:
                    return None
                message = f'"{table}" is a table of another query'
                hint = f"the tables here are {', '.join(here)}; {AROUND_HINT}"
                return ExpressionError(message, base.span, hint)
        return None

    def _complete_hint(
        self, node: SyntaxNode, scope: Scope, error: ExpressionError
    ) -> ExpressionError:
        """Return the error of an unknown column with a hint that knows all columns of tables."""
        if not isinstance(error, UnknownColumnError) or error.hint.startswith("did you mean"):
            return error
        hint = ""
        match node:
            case Member(base=Name(name=table), name=name) if table in self.table_columns:
                names = self.table_columns[table]
                hint = suggest_name(name, names) or f"it has {', '.join(names)}"
            case Name(name=name):
                tables = [each for each in scope.tables if each in self.table_columns]
                names = tuple(f"{each}.{c}" for each in tables for c in self.table_columns[each])
                near = find_nearest_name(name, (each.rpartition(".")[2] for each in names))
                found = [each for each in names if near and each.rpartition(".")[2] == near]
                hint = f'did you mean "{found[0]}"?' if found else ""
        return ExpressionError(error.message, error.span, hint or error.hint)

    def _write_frame(self, node: WindowCall) -> str:
        """Return what an expression of a step has in place of `over (...)`."""
        assert isinstance(node.window, WindowSpec), "named windows are written out"
        frame = node.window.frame
        return "" if frame is None else f" over ({self.cut(frame)})"

    def _is_written(self, node: SyntaxNode) -> bool:
        """Whether a name is in the query, and not another expression that it stands for."""
        if isinstance(node, Member) and isinstance(node.base, Name):
            written = re.sub(r"[\s`]", "", self.read(node.span))
            return written == re.sub(r"[\s`]", "", f"{node.base.name}.{node.name}")
        if not isinstance(node, Name):
            return not self.cut(node.span).endswith("*")
        return self.cut(node.span) in (quote_name(node.name), f"`{node.name}`")

    def _find_value(self, node: SyntaxNode, scope: Scope) -> str | None:
        """Return the text of the result of a query that has been joined."""
        match node:
            case CallNode(name="not", arguments=(CallNode(span=span) as inner,)):
                # The text of x not in (...) is that of the in: its not is replaced with it.
                before = tokenize(self.read(Span(node.span.start, span.start)))
                if all(token.text in ("(", "") for token in before):
                    text = self._find_value(inner, scope)
                    return text and f"(not {text})"
                return None
            case Subquery() | CallNode(name="in" | "exists"):
                read = self.values.get(node.span)
                return None if read is None else read(scope)
        return None

    def condition(
        self, node: SyntaxNode, scope: Scope, find: Replace | None = None
    ) -> list[TextPart]:
        """Return the parts of a condition that others are joined to by `and`."""
        parts = self.parts(node, scope, find)
        is_open = isinstance(node, CallNode) and node.name == "or"
        if (
            is_open
            and isinstance(node, CallNode)
            and node.arguments[0].span.start == node.span.start
        ):
            start, end = node.span.start, node.span.end
            return [TextPart(start, start, "("), *parts, TextPart(end, end, ")")]
        return parts

    def join_conditions(self, conditions: Sequence[list[TextPart]]) -> Text:
        """Return conditions, each in its parts, with `and` between them."""
        ordered = sorted(conditions, key=lambda parts: parts[0].start)
        parts: list[TextPart] = []
        for at, condition in enumerate(ordered):
            if at:
                begin = condition[0].start
                parts.append(TextPart(begin, begin, " and "))
            parts.extend(condition)
        return self.written.text.compose(parts)

    def resolve_tree(self, node: SyntaxNode, scope: Scope) -> SyntaxNode:
        """Return the tree with its columns named as the step names them, to compare trees."""

        def visit(each: SyntaxNode, bound: frozenset[str]) -> SyntaxNode | None:
            if isinstance(each, WindowCall | Subquery):
                return Name(each.span, self.cut(each.span))
            try:
                column = scope.find(each, bound)
            except ExpressionError:
                return None
            return Name(each.span, column.text) if column is not None else None

        return replace_nodes(node, visit)


def refuse_call(node: SyntaxNode) -> None:
    """Refuse what no expression of a step has. Raises ExpressionError."""
    match node:
        case CallNode(name=name) if name in WINDOW_NAMES:
            message = f"{name}(...) is an item of group by, and not a value"
            hint = "write it after group by, and select window_start and window_end, its times"
            raise ExpressionError(message, node.span, hint)
        case CallNode(name=name) if name.rpartition("_")[0] in WINDOW_NAMES:
            bound = {"start": "window_start", "end": "window_end"}.get(name.rpartition("_")[2])
            message = f"{name}(...) is a function of Flink"
            hint = f"select {bound or 'window_end - interval 1 microsecond'}, a column of the group"
            raise ExpressionError(message, node.span, hint)
        case CallNode(name=name) if name in WINDOW_FUNCTIONS:
            message = f"{name}(...) wants over (...)"
            hint = f"{name}(...) over (partition by ... order by ...)"
            raise ExpressionError(message, node.span, hint)
        case Subquery():
            message = "a query is not supported here"
            raise ExpressionError(message, node.span, SUBQUERY_HINT)
        case WindowCall(call=call):
            message = f"{call.name} over a window of rows is not supported here"
            hint = "it may stand in select and in qualify, also of a query in from (...)"
            raise ExpressionError(message, node.span, hint)


def _split(span: Span, replaced: dict[Span, str]) -> Iterator[TextPart]:
    """Yield the parts of a text between and instead of what is replaced in it."""
    at = span.start
    for each in sorted(replaced, key=lambda each: (each.start, each.end)):
        if each.start < at:
            continue
        if each.start > at:
            yield TextPart(at, each.start)
        yield TextPart(each.start, each.end, replaced[each])
        at = each.end
    if at < span.end or at == span.start:
        yield TextPart(at, span.end)


def comparable_text(node: SyntaxNode) -> str:
    """Return a text that is equal for equal expressions: the canonical one, in which queries are
    stars, and the queries as they are written."""
    queries = (each.text for each in find_subqueries(node))
    return " ".join((canonical_text(node), *queries))


def list_conditions(node: SyntaxNode | None) -> Iterator[SyntaxNode]:
    """Yield the conditions that `and` joins, and those that all sides of an `or` repeat: they may
    join rows, which the `or` cannot."""
    for condition in split_conjunction(node):
        yield condition
        if isinstance(condition, CallNode) and condition.name == "or":
            first, *others = ([*split_conjunction(side)] for side in _split_sides(condition))
            repeated = [{comparable_text(each) for each in side} for side in others]
            yield from (
                each for each in first if all(comparable_text(each) in side for side in repeated)
            )


def _split_sides(node: SyntaxNode) -> Iterator[SyntaxNode]:
    if isinstance(node, CallNode) and node.name == "or":
        for argument in node.arguments:
            yield from _split_sides(argument)
    else:
        yield node


def split_conjunction(node: SyntaxNode | None) -> Iterator[SyntaxNode]:
    """Yield the conditions that `and` joins, from the left."""
    if isinstance(node, CallNode) and node.name == "and":
        for argument in node.arguments:
            yield from split_conjunction(argument)
    elif node is not None:
        yield node
