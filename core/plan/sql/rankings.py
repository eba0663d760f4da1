"""Conditions on the rank of a row, as `row_number() over (...) <= n`: clauses `top` and `dedup`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.core.aggregates.over_calls import RANK_FUNCTIONS, RankFunction
from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Literal,
    Member,
    Name,
    SortItem,
    SyntaxNode,
)
from headrace.core.pipeline.clauses.keyed import Dedup, Top, Ttl
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.text import Text, TextPart
from headrace.core.plan import nodes
from headrace.core.plan.nodes import RANK_COLUMN
from headrace.core.plan.sql.scope import Scope
from headrace.core.plan.sql.steps import Draft
from headrace.core.plan.sql.texts import QueryTexts, split_conjunction
from headrace.core.plan.sql.time_bounds import find_column
from headrace.core.plan.sql.windows import is_current_time
from headrace.core.sql.syntax_tree import (
    Query,
    Select,
    WindowCall,
    WindowSpec,
    find_window_calls,
)
from headrace.core.types.data_types import INT, quote_name
from headrace.core.types.lazy_dataclass import dataclass

_HINT = "{}() over (partition by ... order by ...) <= n gives the first rows of each key"


@dataclass(frozen=True, slots=True)
class RankLimit:
    """The first rows of each group of rows, in an order."""

    call: WindowCall
    window: WindowSpec
    count: int
    others: tuple[SyntaxNode, ...] = ()
    """The further conditions on these rows."""

    @property
    def function(self) -> RankFunction:
        """The function that ranks the rows."""
        name = self.call.call.name
        return next(each for each in RANK_FUNCTIONS if each == name)


def find_ranking(select: Select, texts: QueryTexts) -> RankLimit | None:
    """Return the ranking of `qualify`, if that is the only function over a window of rows."""
    conditions = [*split_conjunction(select.qualify)]
    for condition in conditions:
        bound = _read_bound(condition)
        call = bound[0] if bound else None
        if isinstance(call, Name):
            named = (item.expression for item in select.items if item.name == call.name)
            call = next(named, None)
        if bound is None or not isinstance(call, WindowCall):
            continue
        if call.call.name not in RANK_FUNCTIONS:
            continue
        others = tuple(each for each in conditions if each is not condition)
        read = (*others, *(item.expression for item in select.items))
        calls = (each for node in read for each in find_window_calls(node))
        if any(texts.cut(each.span) != texts.cut(call.span) for each in calls):
            return None
        window = call.window
        assert isinstance(window, WindowSpec), "named windows are written out"
        if not window.order_by:
            message = f"{call.call.name} wants an order by"
            raise texts.reject(message, window.span, _HINT.format(call.call.name))
        return RankLimit(call, window, bound[1], others)
    return None


def follows_event_time(ranking: RankLimit, draft: Draft) -> bool:
    """Whether a rank with ties counts facts from the earliest: then it never changes."""
    source = draft.inputs[0]
    if ranking.function == "row_number" or not isinstance(source.kind, nodes.Append):
        return False
    first, *others = ranking.window.order_by
    time = find_column(first.expression, draft.scope)
    is_time = source.has_event_time and time is not None and time.time is not None
    return is_time and not others and not first.is_descending


def _read_bound(node: SyntaxNode) -> tuple[SyntaxNode, int] | None:
    """Return what a condition limits, and the highest number that passes."""
    if not isinstance(node, CallNode) or len(node.arguments) != 2:
        return None
    one, other = node.arguments
    sign = node.name
    if isinstance(one, Literal):
        one, other = other, one
        sign = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(sign, sign)
    if not isinstance(other, Literal) or other.type != INT or not isinstance(other.value, int):
        return None
    most = {"<=": other.value, "<": other.value - 1}.get(sign)
    if sign == "=" and other.value == 1:
        most = 1
    return (one, most) if most is not None and most > 0 else None


def limit_query(query: Query, alias: str, conditions: list[SyntaxNode]) -> Query:
    """Return a query with the condition around it on the rank of its rows, as its `qualify`.

    The condition is removed from `conditions`.
    """
    select = query.body
    if not isinstance(select, Select) or select.qualify is not None or not query.is_plain:
        return query
    ranked: Mapping[str, SyntaxNode] = {
        item.name: item.expression
        for item in select.items
        if isinstance(item.expression, WindowCall)
    }
    for condition in conditions:
        bound = _read_bound(condition)
        match bound:
            case (Name(name=name), _) if name in ranked:
                pass
            case (Member(base=Name(name=table), name=name), _) if table == alias:
                if name not in ranked:
                    continue
            case _:
                continue
        assert isinstance(condition, CallNode), "it was read as a comparison"
        at = [isinstance(each, Name | Member) for each in condition.arguments]
        arguments = tuple(
            ranked[name] if is_column else each
            for is_column, each in zip(at, condition.arguments, strict=True)
        )
        conditions.remove(condition)
        return replace(query, body=replace(select, qualify=replace(condition, arguments=arguments)))
    return query


@dataclass(frozen=True, slots=True)
class RankedRows:
    """The clauses of the first rows of each key, and the text of their rank after them."""

    clauses: Mapping[str, object]
    number: str
    key: tuple[str, ...]
    """The columns of the key of the changes that they emit."""


def make_dedup(
    key: tuple[Assignment, ...], ttl: Ttl | None, *, keeps_last: bool | None = None
) -> Dedup:
    """Return a clause `dedup`: of the first or last row in event time, or of any."""
    return Dedup.model_construct(
        key=key,
        keep="last" if keeps_last else "first",
        order="arrival" if keeps_last is None else "event_time",
        ttl=None if ttl is None or keeps_last else ttl.after,
        time="event" if ttl is None or keeps_last is not None else ttl.time,
    )


def write_ranking(
    ranking: RankLimit, draft: Draft, texts: QueryTexts, ttl: Ttl | None
) -> RankedRows:
    """Return the clauses of a ranking over the rows of a draft with one input."""
    scope = draft.scope
    keys = [write_key(each, scope, texts) for each in ranking.window.partition_by]
    source = draft.inputs[0]
    is_timed = isinstance(source.kind, nodes.Append) and source.has_event_time
    if ranking.count == 1 and ranking.function == "row_number" and is_timed:
        order = ranking.window.order_by
        time = find_column(order[0].expression, scope) if len(order) == 1 else None
        if time is not None and time.time is not None and keys and not any(e for _, e in keys):
            is_last = order[0].is_descending
            key = tuple(Assignment(name, None) for name, _ in keys)
            dedup = make_dedup(key, ttl, keeps_last=is_last)
            return RankedRows(
                {"dedup": dedup}, "1", tuple(str(n) for n, _ in keys) if is_last else ()
            )
    computed = tuple(Assignment(name, text) for name, text in keys if text is not None)
    clauses: dict[str, object] = {"with_": computed} if computed else {}
    if keys:
        clauses["key"] = tuple(Assignment(name, None) for name, _ in keys)
    _refuse_clock(ranking, scope, texts)
    by = write_order(ranking.window.order_by, scope, texts)
    clauses["top"] = Top.model_construct(n=ranking.count, by=by, ties=ranking.function)
    if ttl is not None:
        clauses["ttl"] = ttl
    names = (*(str(name) for name, _ in keys), RANK_COLUMN)
    if ranking.function != "row_number":
        names = ()
    return RankedRows(clauses, RANK_COLUMN, names)


def _refuse_clock(ranking: RankLimit, scope: Scope, texts: QueryTexts) -> None:
    """Refuse an order by the time at which rows arrive. Raises RejectedQuery."""
    for item in ranking.window.order_by:
        node = item.expression
        is_flink = isinstance(node, CallNode) and node.name == "proctime"
        if is_flink or is_current_time(node, scope):
            message = f"{ranking.function}() goes by columns of rows, got {texts.cut(node.span)}"
            hint = "order by the event time; dedup in YAML keeps the row that arrives first"
            raise texts.reject(message, node.span, hint)


def write_key(node: SyntaxNode, scope: Scope, texts: QueryTexts) -> tuple[Text, Text | None]:
    """Return the name of a key, and its text unless it is a column."""
    text = texts.write(node, scope)
    column = find_column(node, scope)
    if column is not None and text == quote_name(column.stored):
        return texts.name(column.stored, node.span), None
    name = texts.cut(node.span)
    while any(name == each.stored for each in scope.columns):
        name += "_"
    return texts.name(name, node.span), text


def write_order(order_by: Iterable[SortItem], scope: Scope, texts: QueryTexts) -> tuple[Text, ...]:
    """Return the rankings of an `order by`, as the clause `top` has them."""
    return tuple(
        write_sort_item(item, texts.parts(item.expression, scope), texts) for item in order_by
    )


def write_sort_item(item: SortItem, parts: list[TextPart], texts: QueryTexts) -> Text:
    """Return a ranking of `top`: an expression, in parts, and its direction."""
    words = " desc" if item.is_descending else ""
    if item.nulls_last != item.is_descending:
        words = f"{words or ' asc'} nulls {'last' if item.nulls_last else 'first'}"
    end = item.expression.span.end
    tail = [TextPart(end, end, words)] if words else []
    return texts.written.text.compose([*parts, *tail])
