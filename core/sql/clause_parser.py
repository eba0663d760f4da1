"""Parser of the clauses `group by` and `window`, and of what follows `over`."""

from __future__ import annotations

from headrace.core.expressions.parsing.special_forms import parse_sort_items
from headrace.core.expressions.parsing.syntax_tree import CallNode, Name, SortItem, SyntaxNode
from headrace.core.expressions.typed import Span
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
        form = start.text.lower()
        if form in ("rollup", "cube") and self.next_token.text == "(":
            self.take()
            self.expect("(")
            items = self.parse_arguments()
            self.expect(")")
            return GroupBy(start.span, items, form)
        if form == "grouping" and self.next_token.text.lower() == "sets":
            return self._parse_grouping_sets(())
        items = self.parse_arguments()
        if self.is_at("grouping") and self.next_token.text.lower() == "sets":
            return self._parse_grouping_sets(items)
        if self.accept("with"):
            word = self.current_token
            if not self.accept("rollup", "cube"):
                raise self.unexpected_token_error('"rollup" or "cube"')
            return GroupBy(word.span, items, word.text.lower())
        return GroupBy(start.span, items)

    def _parse_grouping_sets(self, items: tuple[SyntaxNode, ...]) -> GroupBy:
        start = self.take()
        span = start.span.extend_to(self.take().span)
        self.expect("(")
        depth = 1
        while depth and not self.is_at_end:
            depth += {"(": 1, ")": -1}.get(self.take().text, 0)
        return GroupBy(span, items, "grouping sets")

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
