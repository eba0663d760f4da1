"""Parser of the clauses `group by` and `window`, and of what follows `over`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from headrace.core.expressions.parsing.special_forms import parse_sort_items
from headrace.core.expressions.parsing.syntax_tree import CallNode, Name, SortItem, SyntaxNode
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.sql.grouping_sets import GroupingSet, GroupingSets, combine_sets, list_sets
from headrace.core.sql.syntax_tree import GroupBy, WindowCall, WindowSpec
from headrace.core.sql.table_parser import TableParser

_FRAME_WORDS = ("rows", "range", "groups")


class ClauseParser(TableParser):
    """A parser of clauses of a `select`."""

    def accept_clause(self, word: str, places: dict[str, Span]) -> bool:
        """Read the word of a clause, if it is there, and note its place."""
        token = self.accept(word)
        if token is not None:
            places[word] = token.span
        return token is not None

    def accept_by(self, word: str, places: dict[str, Span]) -> bool:
        """Read `group by` or `order by`, if it is there."""
        if not self.accept_clause(word, places):
            return False
        self.expect("by")
        return True

    def parse_group_by(self, places: dict[str, Span]) -> GroupBy | None:
        """Parse the clause `group by`, if it is there."""
        if not self.accept_by("group", places):
            return None
        start = self.current_token
        found = [self._parse_grouping()]
        while self.accept(","):
            found.append(self._parse_grouping())
        items = tuple(each for each in found if not isinstance(each, tuple))
        if len(items) == len(found):
            sets = self._parse_sets_after(items)
            return GroupBy(start.span.extend_to(self.previous_token.span), items, sets)
        sets = combine_sets(each if isinstance(each, tuple) else ((each,),) for each in found)
        return GroupBy(start.span.extend_to(self.previous_token.span), _list_nodes(found), sets)

    def _parse_grouping(self) -> SyntaxNode | GroupingSets:
        """Parse an expression of `group by`, or grouping sets."""
        word = self.current_token.text.lower()
        if word in ("rollup", "cube") and self.next_token.text == "(":
            self.take()
            if self.next_token.text == ")":
                message = f"wanted the columns of {word}, got none"
                hint = f"as in {word}(a, b); all rows are one group without group by"
                raise ExpressionError(message, self.next_token.span, hint)
            return list_sets(word, self._parse_grouping_list())
        if word == "grouping" and self.next_token.text.lower() == "sets":
            return self._parse_grouping_sets()
        return self.parse_expression()

    def _parse_sets_after(self, items: tuple[SyntaxNode, ...]) -> GroupingSets:
        """Parse `with rollup`, `with cube` or `grouping sets (...)` after expressions."""
        if self.is_at("grouping") and self.next_token.text.lower() == "sets":
            return self._parse_grouping_sets()
        if not self.accept("with"):
            return ()
        word = self.current_token
        if not self.accept("rollup", "cube"):
            raise self.unexpected_token_error('"rollup" or "cube"')
        return list_sets(word.text.lower(), tuple((each,) for each in items))

    def _parse_grouping_sets(self) -> GroupingSets:
        self.take()
        self.take()
        self.expect("(")
        sets: list[GroupingSet] = []
        while True:
            if self.current_token.text.lower() in ("rollup", "cube", "grouping"):
                found = self._parse_grouping()
                sets += found if isinstance(found, tuple) else ((found,),)
            else:
                sets.append(self._parse_set())
            if not self.accept(","):
                self.expect(")")
                return tuple(sets)

    def _parse_grouping_list(self) -> GroupingSets:
        """Parse the arguments of rollup or cube: expressions, or several in parentheses."""
        self.expect("(")
        sets = [self._parse_set()]
        while self.accept(","):
            sets.append(self._parse_set())
        self.expect(")")
        return tuple(sets)

    def _parse_set(self) -> GroupingSet:
        is_open = self.is_at("(")
        if is_open and self.next_token.text == ")":
            self.take()
            self.take()
            return ()
        node = self.parse_expression()
        if is_open and isinstance(node, CallNode) and node.name == "struct":
            return node.arguments
        return (node,)

    def parse_windows(self) -> dict[str, WindowSpec]:
        """Parse the named windows of the clause `window`."""
        windows = {}
        while True:
            name = self.parse_name("the name of a window")
            self.expect("as")
            windows[name.value] = self._parse_window_spec()
            if not self.accept(","):
                return windows

    def parse_window(self, call: CallNode) -> SyntaxNode:
        self.expect("over")
        window: WindowSpec | Name
        if self.is_at("("):
            window = self._parse_window_spec()
        else:
            token = self.parse_name("a window, in parentheses or by its name")
            window = Name(token.span, token.value)
        return WindowCall(call.span.extend_to(self.previous_token.span), call, window)

    def _parse_window_spec(self) -> WindowSpec:
        start = self.expect("(")
        partition_by, order_by = tuple[SyntaxNode, ...](), tuple[SortItem, ...]()
        if self.accept("partition", "distribute"):
            self.expect("by")
            partition_by = self.parse_arguments()
        if self.accept("order", "sort"):
            self.expect("by")
            order_by = parse_sort_items(self)
        frame = None
        if self.is_at(*_FRAME_WORDS):
            first, depth = self.current_token, 0
            while not self.is_at_end and (depth or not self.is_at(")")):
                depth += {"(": 1, ")": -1}.get(self.take().text, 0)
            frame = first.span.extend_to(self.previous_token.span)
        end = self.expect(")")
        return WindowSpec(start.span.extend_to(end.span), partition_by, order_by, frame)


def _list_nodes(groupings: Iterable[SyntaxNode | GroupingSets]) -> tuple[SyntaxNode, ...]:
    """Return the expressions in groupings, each once for each place where it is written."""
    nodes: list[SyntaxNode] = []
    for each in groupings:
        nodes += chain.from_iterable(each) if isinstance(each, tuple) else (each,)
    return tuple({each.span: each for each in nodes}.values())
