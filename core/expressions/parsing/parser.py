"""Parser of expressions: from text to a syntax tree, with Spark's grammar and precedence.

From the loosest: `or`; `and`; `not`; a predicate (`is`, `in`, `between`, `like`), at most one;
comparisons; `|`; `^`; `&`; shifts; `+ - ||`; `* / % div`; signs and `~`; `::`, `[]` and `.`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from headrace.core.expressions.parsing import foreign_syntax, special_forms
from headrace.core.expressions.parsing.keyword_calls import parse_type_name
from headrace.core.expressions.parsing.lexer import SqlToken, find_lost_escape
from headrace.core.expressions.parsing.literals import build_number_literal
from headrace.core.expressions.parsing.predicates import parse_predicate
from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Cast,
    Lambda,
    Literal,
    Member,
    MethodCall,
    Name,
    Star,
    SyntaxNode,
    tree_depth,
)
from headrace.core.expressions.parsing.token_stream import ExpressionParser
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.types.data_types import BOOLEAN, NULL, STRING

# The binary operators by how tightly they bind; all of them group from the left.
_PRECEDENCE_LEVELS = (
    ("=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="),
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>", ">>>"),
    ("+", "-", "||"),
    ("*", "/", "%", "div"),
)
_PRECEDENCE = {
    symbol: level for level, symbols in enumerate(_PRECEDENCE_LEVELS) for symbol in symbols
}
_CANONICAL_OPERATORS = {"==": "=", "!=": "<>"}
_SIGNS = {"-": "negative", "+": "positive", "~": "~"}
_CONSTANTS = {"true": (True, BOOLEAN), "false": (False, BOOLEAN), "null": (None, NULL)}
# The limits of nested parentheses and of nested operators: Python's stack is finite.
_MAX_NESTING = 40
_MAX_DEPTH = 150

# Words that continue an expression, so they are never a column name without quotes.
_INFIX_KEYWORDS = frozenset(
    "and or between in like ilike rlike regexp is escape then when else end".split()
)
_CALLABLE_KEYWORDS = ("like", "ilike", "rlike", "regexp")


@lru_cache(maxsize=4096)  # the steps of a query repeat the names of columns
def parse_expression(text: str) -> SyntaxNode:
    """Return the syntax tree of a text, or raise an ExpressionError at the first unexpected token.

    >>> parse_expression("a + 1").name
    '+'
    """
    return parse_whole(RecursiveDescentParser(text))


def parse_whole(parser: RecursiveDescentParser) -> SyntaxNode:
    """Return the syntax tree of the whole text of a parser, or raise an ExpressionError."""
    if parser.is_at_end:
        whole = Span(0, parser.current_token.span.end)
        raise ExpressionError("wanted an expression, got nothing", whole)
    node = parser.parse_expression()
    if not parser.is_at_end:
        raise parser.unexpected_token_error("an operator or the end")
    if tree_depth(node) > _MAX_DEPTH:
        message = f"more than {_MAX_DEPTH} nested operators"
        raise ExpressionError(message, node.span, "split it over several columns of a `with`")
    return node


class RecursiveDescentParser(ExpressionParser):
    """A recursive descent parser over the tokens; `special_forms` has the irregular forms."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def unexpected_token_error(self, wanted: str) -> ExpressionError:
        token = self.current_token
        span = (
            token.span
            if token.kind != "end"
            else Span(self.previous_token.span.end - 1, token.span.end)
        )
        hint = foreign_syntax.find_hint(self) or foreign_syntax.SyntaxHint("")
        if wanted == "a value" and token.text.lower() in _INFIX_KEYWORDS:
            hint = foreign_syntax.SyntaxHint(f"a column of that name is written `{token.text}`")
        return ExpressionError(f"wanted {wanted}, got {token}", hint.span or span, hint.text)

    def parse_expression(self) -> SyntaxNode:
        self._depth += 1
        if self._depth > _MAX_NESTING:
            message = f"more than {_MAX_NESTING} nested expressions"
            raise ExpressionError(message, self.current_token.span)
        node = self._parse_chain("or", self._parse_and)
        self._depth -= 1
        return node

    def _parse_and(self) -> SyntaxNode:
        return self._parse_chain("and", self._parse_not)

    def _parse_chain(self, name: str, operand: Callable[[], SyntaxNode]) -> SyntaxNode:
        """Join operands of `and` or `or` as a balanced tree: long chains are common, deep trees too
        deep."""
        operands, words = [operand()], []
        while word := self.accept(name):
            words.append(word)
            operands.append(operand())
        while len(operands) > 1:
            pairs = range(0, len(operands) - 1, 2)
            joined: list[SyntaxNode] = [
                build_operator_call(name, words[i], *operands[i : i + 2]) for i in pairs
            ]
            words = words[1::2]
            operands = joined + operands[len(joined) * 2 :]
        return operands[0]

    def _parse_not(self) -> SyntaxNode:
        signs = []
        while self.is_at("!") or (self.is_at("not") and self.next_token.text != "("):
            signs.append(self.take())
        node = self._parse_negation() if self.is_at("not") else self._parse_predicate()
        for word in reversed(signs):
            node = CallNode(word.span.extend_to(node.span), "not", word.span, (node,))
        return node

    def _parse_negation(self) -> SyntaxNode:
        word = self.take()
        node = self._parse_not()
        return CallNode(word.span.extend_to(node.span), "not", word.span, (node,))

    def _parse_predicate(self) -> SyntaxNode:
        node = self.parse_value()
        return parse_predicate(self, node)

    def parse_value(self, least: int = 0) -> SyntaxNode:
        node = self._parse_sign()
        while (level := _PRECEDENCE.get(self.current_token.keyword, -1)) >= least:
            word = self.take()
            symbol = word.keyword
            node = build_operator_call(
                _CANONICAL_OPERATORS.get(symbol, symbol), word, node, self.parse_value(level + 1)
            )
        return node

    def _parse_sign(self) -> SyntaxNode:
        signs = []
        while self.is_at(*_SIGNS) and not (self.is_at("-") and self.next_token.kind == "number"):
            signs.append(self.take())
        node = self._parse_postfix()
        for word in reversed(signs):
            node = CallNode(word.span.extend_to(node.span), _SIGNS[word.text], word.span, (node,))
        return node

    def _parse_postfix(self) -> SyntaxNode:
        node = self._parse_primary()
        while True:
            if word := self.accept("["):
                index = self.parse_expression()
                foreign_syntax.refuse_constructor(self, node)
                end = self.expect("]")
                node = CallNode(node.span.extend_to(end.span), "[]", word.span, (node, index))
            elif self.accept("."):
                if self.is_at("*"):
                    raise foreign_syntax.star_error(node.span, self.current_token.span)
                name = self.parse_name("the name of a field")
                if self.is_at("("):
                    return self._parse_method_call(node, name)
                node = Member(node.span.extend_to(name.span), node, name.value, name.span)
            elif self.accept("::"):
                type = parse_type_name(self)
                node = Cast(node.span.extend_to(self.previous_token.span), node, type, is_try=False)
            else:
                return node

    def _parse_method_call(self, subject: SyntaxNode, name: SqlToken) -> SyntaxNode:
        """Parse `text.upper()` from its parenthesis; resolving it reports what to write."""
        call = self._parse_call(name)
        arguments = call.arguments if isinstance(call, CallNode) else ()
        between = [self.source_text(each.span) for each in arguments]
        whole = f"{name.text.lower()}({', '.join((self.source_text(subject.span), *between))})"
        span = subject.span.extend_to(call.span)
        return MethodCall(span, subject, name.text, arguments, whole)

    def _parse_primary(self) -> SyntaxNode:
        token = self.current_token
        match token.kind:
            case "number":
                return build_number_literal(self.take())
            case "string":
                return self._parse_string()
            case "quoted":
                return self._parse_name_or_lambda(self.take())
            case "word":
                return self._parse_word()
        if self.is_at("-"):
            minus = self.take()
            return build_number_literal(self.take(), minus)
        if self.accept("("):
            return self._parse_parenthesis(token)
        if self.is_at("*") and self.next_token.kind in ("end", "symbol"):
            raise foreign_syntax.star_error(token.span, token.span)
        raise self.unexpected_token_error("a value")

    def _parse_string(self) -> SyntaxNode:
        first = self.take()
        value, lost = first.value, find_lost_escape(first.text)
        while self.current_token.kind == "string":
            value += self.current_token.value
            lost = lost or find_lost_escape(self.take().text)
        return Literal(first.span.extend_to(self.previous_token.span), value, STRING, lost)

    def _parse_parenthesis(self, start: SqlToken) -> SyntaxNode:
        node = self.parse_expression()
        if self.is_at(",") and isinstance(node, Name) and self._is_lambda_ahead():
            return self._parse_lambda(start, node.name)
        if self.accept(","):
            values = (node, *self.parse_arguments())
            end = self.expect(")")
            return CallNode(start.span.extend_to(end.span), "struct", start.span, values)
        self.expect(")")
        return _extend_span(node, start.span.extend_to(self.previous_token.span))

    def _is_lambda_ahead(self) -> bool:
        """Whether the list of names here ends in `) ->`."""
        ahead = 0
        while self.peek(ahead).text == "," and self.peek(ahead + 1).kind in ("word", "quoted"):
            ahead += 2
        return self.peek(ahead).text == ")" and self.peek(ahead + 1).text == "->"

    def _parse_lambda(self, start: SqlToken, first: str) -> SyntaxNode:
        """Parse `(a, b) -> body` from its first comma."""
        names = [first]
        while self.accept(","):
            name = self.parse_name("the name of a parameter")
            if name.value in names:
                raise ExpressionError(f'two parameters named "{name.value}"', name.span)
            names.append(name.value)
        self.expect(")")
        self.expect("->")
        body = self.parse_expression()
        return Lambda(start.span.extend_to(body.span), tuple(names), body)

    def _parse_word(self) -> SyntaxNode:
        token = self.current_token
        word = token.text.lower()
        if word in _CONSTANTS and self.next_token.text != "(":
            self.take()
            return Literal(token.span, *_CONSTANTS[word])
        if word in ("select", "distinct") and (error := foreign_syntax.query_error(self)):
            raise error
        if form := special_forms.parse_special_form(self):
            return form
        if word in _INFIX_KEYWORDS and not (
            word in _CALLABLE_KEYWORDS and self.next_token.text == "("
        ):
            raise self.unexpected_token_error("a value")
        self.take()
        if self.is_at("("):
            return self._parse_call(token)
        return self._parse_name_or_lambda(token)

    def _parse_name_or_lambda(self, name: SqlToken) -> SyntaxNode:
        if not self.accept("->"):
            return Name(name.span, name.value)
        body = self.parse_expression()
        return Lambda(name.span.extend_to(body.span), (name.value,), body)

    def _parse_call(self, name: SqlToken) -> SyntaxNode:
        self.expect("(")
        distinct = bool(self.accept("distinct"))
        arguments = () if self.is_at(")") else self.parse_arguments()
        arguments += special_forms.parse_nulls_clause(self)
        self.expect(")")
        arguments += special_forms.parse_nulls_clause(self)
        order = special_forms.parse_within_group_clause(self)
        condition = special_forms.parse_filter_clause(self)
        span = name.span.extend_to(self.previous_token.span)
        call = CallNode(span, name.text.lower(), name.span, arguments, distinct, condition, order)
        return self.parse_window(call) if self.is_at("over") else call

    def parse_window(self, call: CallNode) -> SyntaxNode:
        """Parse `over` after the call of a function, which only some parsers allow."""
        raise foreign_syntax.window_function_error(self, call.name)

    def parse_arguments(self) -> tuple[SyntaxNode, ...]:
        found = [self._parse_argument()]
        while self.accept(","):
            found.append(self._parse_argument())
        return tuple(found)

    def _parse_argument(self) -> SyntaxNode:
        if self.is_at("*") and self.next_token.text in (")", ","):
            return Star(self.take().span)
        return self.parse_expression()


def build_operator_call(name: str, word: SqlToken, *operands: SyntaxNode) -> CallNode:
    """Build the call of an infix operator."""
    return CallNode(operands[0].span.extend_to(operands[-1].span), name, word.span, operands)


def _extend_span(node: SyntaxNode, span: Span) -> SyntaxNode:
    """Extend the span of the node to its parentheses, so that carets cover them."""
    return replace(node, span=span)
