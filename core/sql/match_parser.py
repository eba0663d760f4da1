"""Parser of `match_recognize (...)`, in the grammar of Flink and of the SQL standard.

match_recognize ([partition by expressions] order by items [measures expression as name, ...]
[one row per match | all rows per match] [after match skip ...] pattern (...) [within interval]
define variable as condition, ...)

Tests: tests/core/plan/sql/test_match_tables.py.
"""

from __future__ import annotations

import re

from headrace.core.expressions.parsing.parser import RecursiveDescentParser
from headrace.core.expressions.parsing.special_forms import parse_sort_items
from headrace.core.expressions.parsing.syntax_tree import CallNode, Name, SyntaxNode
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.sql.syntax_tree import (
    AfterMatchSkip,
    DerivedTable,
    MatchTable,
    SelectItem,
    TableName,
)
from headrace.core.types.lazy_pattern import compile_pattern

_ORDER_HINT = (
    "the clauses are partition by, order by, measures, one row per match, after match skip, "
    "pattern (...), within, define, in this order"
)
_LATER_CLAUSE = compile_pattern(
    r"\b(within(?=\s+interval\b)|define(?=\s+\S+\s+as\b))", re.IGNORECASE
)
"""The beginning of a clause that is no part of a pattern."""
_NAME_HINT = "each measure has a name, as in last(a.price) as price"
_SUBSET_HINT = "define and measures name single variables; an aggregate of none is of all rows"
_UNMATCHED_HINT = "a join with the rows of the matches, or a query without, finds the others"


class MatchParser(RecursiveDescentParser):
    """A parser of `match_recognize (...)`, and of what only its expressions have."""

    _is_in_match = False

    def parse_match(self, table: TableName | DerivedTable) -> MatchTable:
        """Parse `match_recognize (...)` after its table, without an alias."""
        word = self.take()
        places = {"match_recognize": word.span}
        self.expect("(")
        self._is_in_match = True
        partition_by = self._parse_partition(places)
        order_by = parse_sort_items(self) if self._accept_clause("order", "by", places) else ()
        measures = self._parse_definitions("measures", places)
        all_rows = self._parse_output_mode(places)
        after_match = self._parse_skip(places)
        pattern = self._parse_pattern(places)
        within = self.parse_value() if self._accept_clause("within", "", places) else None
        self._refuse("subset", "subset is not supported", _SUBSET_HINT)
        define = self._parse_definitions("define", places)
        if not define:
            raise self._order_error('"define"')
        if not self.is_at(")"):
            raise self._order_error('")"')
        end = self.take()
        self._is_in_match = False
        return MatchTable(
            table.span.extend_to(end.span), table, partition_by, order_by, measures, all_rows,
            after_match, pattern, within, define, places,
        )  # fmt: skip

    def _accept_clause(self, word: str, second: str, places: dict[str, Span]) -> bool:
        """Read the words of a clause, if they are there, and note their place."""
        if not self.is_at(word):
            return False
        places[word] = self.take().span
        if second:
            self.expect(second)
        return True

    def _order_error(self, wanted: str) -> ExpressionError:
        error = RecursiveDescentParser.unexpected_token_error(self, wanted)
        return ExpressionError(error.message, error.span, _ORDER_HINT)

    def _refuse(self, word: str, message: str, hint: str) -> None:
        if self.is_at(word):
            raise ExpressionError(message, self.current_token.span, hint)

    def _parse_partition(self, places: dict[str, Span]) -> tuple[SyntaxNode, ...]:
        return self.parse_arguments() if self._accept_clause("partition", "by", places) else ()

    def _parse_definitions(self, word: str, places: dict[str, Span]) -> tuple[SelectItem, ...]:
        """Parse `measures expression as name, ...` or `define variable as condition, ...`."""
        items = list[SelectItem]()
        if not self._accept_clause(word, "", places):
            return ()
        while not items or self.accept(","):
            if word == "define":
                name = self.parse_name("a variable of the pattern")
                self.expect("as")
                node = self.parse_expression()
            else:
                node = self.parse_expression()
                if not self.accept("as"):
                    error = self.unexpected_token_error('"as"')
                    raise ExpressionError(error.message, error.span, _NAME_HINT)
                name = self.parse_name("the name of the measure")
            items.append(SelectItem(node, name.value, name.span))
        return tuple(items)

    def _parse_output_mode(self, places: dict[str, Span]) -> bool:
        """Parse `one row per match` or `all rows per match`; whether it is the latter."""
        word = self.accept("one", "all")
        if word is None:
            return False
        is_all = word.keyword == "all"
        for each in ("rows" if is_all else "row", "per", "match"):
            self.expect(each)
        places["mode"] = word.span.extend_to(self.previous_token.span)
        if is_all and self.accept("show", "omit"):
            # A pattern without any row is refused, so there are no empty matches.
            self.expect("empty")
            self.expect("matches")
        self._refuse("with", "with unmatched rows is not supported", _UNMATCHED_HINT)
        return is_all

    def _parse_skip(self, places: dict[str, Span]) -> AfterMatchSkip | None:
        start = self.current_token.span
        if not self._accept_clause("after", "match", places):
            return None
        self.expect("skip")
        rule, variable = self._parse_skip_target()
        return AfterMatchSkip(rule, start.extend_to(self.previous_token.span), variable)

    def _parse_skip_target(self) -> tuple[str, Name | None]:
        if self.accept("past"):
            self.expect("last")
            self.expect("row")
            return "past_last", None
        if not self.accept("to"):
            raise self.unexpected_token_error('"past last row" or "to"')
        if self.is_at("next") and self.next_token.keyword == "row":
            self.take()
            self.take()
            return "next", None
        is_rule = self.is_at("first", "last") and self.next_token.keyword != "pattern"
        rule = self.take().keyword if is_rule else "last"
        token = self.parse_name("next row, first or last, or a variable")
        return rule, Name(token.span, token.value)

    def _parse_pattern(self, places: dict[str, Span]) -> Span:
        if not self._accept_clause("pattern", "", places):
            raise self._order_error('"pattern"')
        self.expect("(")
        text = self.take()
        swallowed = _LATER_CLAUSE.search(text.text)
        if swallowed or not self.is_at(")"):
            before = swallowed[0].lower() if swallowed else "the end"
            message = f"the parenthesis after pattern is not closed before {before}"
            raise ExpressionError(message, places["pattern"], "as in pattern (a b+ c) define ...")
        self.take()
        return text.span

    def _parse_word(self) -> SyntaxNode:
        word = self.current_token
        is_mode = self.is_at("final", "running") and self.next_token.kind in ("word", "quoted")
        if not (self._is_in_match and is_mode):
            return super()._parse_word()
        self.take()
        operand = self._parse_postfix()
        span = word.span.extend_to(operand.span)
        return CallNode(span, word.keyword, word.span, (operand,))

    def _parse_argument(self) -> SyntaxNode:
        is_rows = self.next_token.text == "." and self.peek(2).text == "*"
        if not (self._is_in_match and is_rows):
            return super()._parse_argument()
        name = self.take()
        self.take()
        return Name(name.span.extend_to(self.take().span), name.value)
