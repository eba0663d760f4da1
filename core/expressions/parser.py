"""Parser of expressions: from text to a syntax tree, with Spark's grammar and precedence.

From the loosest: `or`; `and`; `not`; a predicate (`is`, `in`, `between`, `like`), at most one;
comparisons; `|`; `^`; `&`; shifts; `+ - ||`; `* / % div`; signs and `~`; `::`, `[]` and `.`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.core.expressions import habits, special
from headrace.core.expressions.keyword_calls import type_name
from headrace.core.expressions.lexer import Token, lost_escape, tokens
from headrace.core.expressions.literals import number
from headrace.core.expressions.predicates import predicate
from headrace.core.expressions.syntax import (
    Call,
    Cast,
    Lambda,
    Literal,
    Member,
    Name,
    Node,
    Star,
    depth,
)
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.types import BOOLEAN, NULL, STRING

# The binary operators by how tightly they bind; all of them group from the left.
_LEVELS = (
    ("=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="),
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>", ">>>"),
    ("+", "-", "||"),
    ("*", "/", "%", "div"),
)
_LEVEL = {symbol: level for level, symbols in enumerate(_LEVELS) for symbol in symbols}
_CANONICAL = {"==": "=", "!=": "<>"}
_SIGNS = {"-": "negative", "+": "positive", "~": "~"}
_CONSTANTS = {"true": (True, BOOLEAN), "false": (False, BOOLEAN), "null": (None, NULL)}
# The limits of nested parentheses and of nested operators: Python's stack is finite.
_MAX_NESTING = 40
_MAX_DEPTH = 150

# Words that continue an expression, so they are never a column name without quotes.
_INFIX = frozenset("and or between in like ilike rlike regexp is escape then when else end".split())
_ALSO_CALLS = ("like", "ilike", "rlike", "regexp")


def parse(text: str) -> Node:
    """Return the syntax tree of a text, or raise an ExpressionError at the first unexpected token.

    >>> parse("a + 1").name
    '+'
    """
    parser = Parser(text)
    if parser.ended:
        raise ExpressionError("wanted an expression, got nothing", Span(0, len(text)))
    node = parser.expression()
    if not parser.ended:
        raise parser.unexpected("an operator or the end")
    if depth(node) > _MAX_DEPTH:
        message = f"more than {_MAX_DEPTH} nested operators"
        raise ExpressionError(message, node.span, "split it over several columns of a `with`")
    return node


class Parser:
    """A recursive descent parser over the tokens; `special_forms` has the irregular forms."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = tokens(text)
        self._at = 0
        self._depth = 0

    @property
    def current(self) -> Token:
        """The next token to read."""
        return self._words[self._at]

    @property
    def ahead(self) -> Token:
        """The token after the current one."""
        return self.peek(1)

    def peek(self, count: int) -> Token:
        """Return the token that many positions after the current one."""
        return self._words[min(self._at + count, len(self._words) - 1)]

    @property
    def ended(self) -> bool:
        """Whether every token has been read."""
        return self.current.kind == "end"

    @property
    def previous(self) -> Token:
        """The token read last."""
        return self._words[max(self._at - 1, 0)]

    def text_of(self, span: Span) -> str:
        """Return the characters of a span."""
        return self._text[span.start : span.end]

    def take(self) -> Token:
        """Read a token."""
        token = self.current
        self._at = min(self._at + 1, len(self._words) - 1)
        return token

    def at(self, *texts: str) -> bool:
        """Whether the current token is one of these symbols, or of these words in any case."""
        token = self.current
        return token.kind in ("word", "symbol") and token.text.lower() in texts

    def accept(self, *texts: str) -> Token | None:
        """Read the token if it is one of these."""
        return self.take() if self.at(*texts) else None

    def expect(self, text: str) -> Token:
        """Read this token, or raise the error that it was wanted."""
        return self.accept(text) or self._missing(text)

    def _missing(self, text: str) -> Token:
        raise self.unexpected(f'"{text}"')

    def unexpected(self, wanted: str) -> ExpressionError:
        """Return the error for the current token, where another was wanted."""
        token = self.current
        span = (
            token.span if token.kind != "end" else Span(self.previous.span.end - 1, token.span.end)
        )
        hint = habits.hint(self)
        if wanted == "a value" and token.text.lower() in _INFIX:
            hint = f"a column of that name is written `{token.text}`"
        return ExpressionError(f"wanted {wanted}, got {token}", span, hint)

    def expression(self) -> Node:
        """Parse a whole expression: the level of `or`."""
        self._depth += 1
        if self._depth > _MAX_NESTING:
            message = f"more than {_MAX_NESTING} nested expressions"
            raise ExpressionError(message, self.current.span)
        node = self._chain("or", self._and)
        self._depth -= 1
        return node

    def _and(self) -> Node:
        return self._chain("and", self._not)

    def _chain(self, name: str, operand: Callable[[], Node]) -> Node:
        """Join operands of `and` or `or` as a balanced tree: long chains are common, deep trees too
        deep."""
        operands, words = [operand()], []
        while word := self.accept(name):
            words.append(word)
            operands.append(operand())
        while len(operands) > 1:
            pairs = range(0, len(operands) - 1, 2)
            joined: list[Node] = [operator(name, words[i], *operands[i : i + 2]) for i in pairs]
            words = words[1::2]
            operands = joined + operands[len(joined) * 2 :]
        return operands[0]

    def _not(self) -> Node:
        signs = []
        while self.at("!") or (self.at("not") and self.ahead.text != "("):
            signs.append(self.take())
        node = self._negated() if self.at("not") else self._predicate()
        for word in reversed(signs):
            node = Call(word.span.to(node.span), "not", word.span, (node,))
        return node

    def _negated(self) -> Node:
        word = self.take()
        node = self._not()
        return Call(word.span.to(node.span), "not", word.span, (node,))

    def _predicate(self) -> Node:
        node = self.value()
        return predicate(self, node)

    def value(self, least: int = 0) -> Node:
        """Parse an expression of operators that bind at least as tightly as this level."""
        node = self._sign()
        while self.at(*_LEVEL) and (level := _LEVEL[self.current.text.lower()]) >= least:
            word = self.take()
            symbol = word.text.lower()
            node = operator(_CANONICAL.get(symbol, symbol), word, node, self.value(level + 1))
        return node

    def _sign(self) -> Node:
        signs = []
        while self.at(*_SIGNS) and not (self.at("-") and self.ahead.kind == "number"):
            signs.append(self.take())
        node = self._postfix()
        for word in reversed(signs):
            node = Call(word.span.to(node.span), _SIGNS[word.text], word.span, (node,))
        return node

    def _postfix(self) -> Node:
        node = self._primary()
        while True:
            if word := self.accept("["):
                index = self.expression()
                end = self.expect("]")
                node = Call(node.span.to(end.span), "[]", word.span, (node, index))
            elif self.accept("."):
                if self.at("*"):
                    raise habits.star(node.span, self.current.span)
                name = self.name("the name of a field")
                if self.at("("):
                    raise habits.method(self, node, name.value)
                node = Member(node.span.to(name.span), node, name.value, name.span)
            elif self.accept("::"):
                type = type_name(self)
                node = Cast(node.span.to(self.previous.span), node, type, attempt=False)
            else:
                return node

    def name(self, wanted: str) -> Token:
        """Read a name, bare or in back quotes."""
        if self.current.kind not in ("word", "quoted"):
            raise self.unexpected(wanted)
        return self.take()

    def _primary(self) -> Node:
        token = self.current
        match token.kind:
            case "number":
                return number(self.take())
            case "string":
                return self._string()
            case "quoted":
                return Name(self.take().span, token.value)
            case "word":
                return self._word()
        if self.at("-"):
            minus = self.take()
            return number(self.take(), minus)
        if self.accept("("):
            return self._parenthesis(token)
        if self.at("*") and self.ahead.kind in ("end", "symbol"):
            raise habits.star(token.span, token.span)
        raise self.unexpected("a value")

    def _string(self) -> Node:
        first = self.take()
        value, lost = first.value, lost_escape(first.text)
        while self.current.kind == "string":
            value += self.current.value
            lost = lost or lost_escape(self.take().text)
        return Literal(first.span.to(self.previous.span), value, STRING, lost)

    def _parenthesis(self, start: Token) -> Node:
        node = self.expression()
        if self.at(",") and isinstance(node, Name) and self._lambda_follows():
            return self._lambda(start, node.name)
        if self.at(","):
            raise ExpressionError(
                "a list in parentheses is allowed only after in", self.current.span
            )
        self.expect(")")
        return _spanning(node, start.span.to(self.previous.span))

    def _lambda_follows(self) -> bool:
        """Whether the list of names here ends in `) ->`."""
        ahead = 0
        while self.peek(ahead).text == "," and self.peek(ahead + 1).kind in ("word", "quoted"):
            ahead += 2
        return self.peek(ahead).text == ")" and self.peek(ahead + 1).text == "->"

    def _lambda(self, start: Token, first: str) -> Node:
        """Parse `(a, b) -> body` from its first comma."""
        names = [first]
        while self.accept(","):
            names.append(self.name("the name of a parameter").value)
        self.expect(")")
        self.expect("->")
        body = self.expression()
        return Lambda(start.span.to(body.span), tuple(names), body)

    def _word(self) -> Node:
        token = self.current
        word = token.text.lower()
        if word in _CONSTANTS and self.ahead.text != "(":
            self.take()
            return Literal(token.span, *_CONSTANTS[word])
        if word in ("select", "distinct") and (error := habits.query(self)):
            raise error
        if form := special.form(self):
            return form
        if word in _INFIX and not (word in _ALSO_CALLS and self.ahead.text == "("):
            raise self.unexpected("a value")
        self.take()
        if self.at("("):
            return self._call(token)
        if self.accept("->"):
            body = self.expression()
            return Lambda(token.span.to(body.span), (token.value,), body)
        return Name(token.span, token.value)

    def _call(self, name: Token) -> Node:
        self.expect("(")
        distinct = bool(self.accept("distinct"))
        arguments = () if self.at(")") else self.arguments()
        arguments += special.nulls_clause(self)
        self.expect(")")
        arguments += special.nulls_clause(self)
        condition = special.filter_clause(self)
        span = name.span.to(self.previous.span)
        if self.at("over"):
            message = "window functions (over) are not supported in a stream"
            raise ExpressionError(message, self.current.span, "use key, window and aggregate")
        return Call(span, name.text.lower(), name.span, arguments, distinct, condition)

    def arguments(self) -> tuple[Node, ...]:
        """Parse expressions with commas between them; a star may be an argument of its own."""
        found = [self._argument()]
        while self.accept(","):
            found.append(self._argument())
        return tuple(found)

    def _argument(self) -> Node:
        if self.at("*") and self.ahead.text in (")", ","):
            return Star(self.take().span)
        return self.expression()


def operator(name: str, word: Token, *operands: Node) -> Call:
    """Build the call of an infix operator."""
    return Call(operands[0].span.to(operands[-1].span), name, word.span, operands)


def _spanning(node: Node, span: Span) -> Node:
    """Extend the span of the node to its parentheses, so that carets cover them."""
    return replace(node, span=span)
