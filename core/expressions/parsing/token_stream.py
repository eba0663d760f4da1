"""The stream of tokens that the parser reads, and the contract of the parser itself.

`keyword_calls`, `predicates` and `special_forms` parse their part of the grammar through this
contract; `parser` implements it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from headrace.core.expressions.parsing.lexer import SqlToken, tokenize
from headrace.core.expressions.parsing.syntax_tree import SyntaxNode
from headrace.core.expressions.typed import ExpressionError, Span


class TokenStream:
    """The tokens of a text, read one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._at = 0

    @property
    def current_token(self) -> SqlToken:
        """The next token to read."""
        return self._tokens[self._at]

    @property
    def next_token(self) -> SqlToken:
        """The token after the current one."""
        return self.peek(1)

    def peek(self, count: int) -> SqlToken:
        """Return the token that many positions after the current one."""
        at = self._at + count
        return self._tokens[min(at, len(self._tokens) - 1) if at >= 0 else -1]

    @property
    def is_at_end(self) -> bool:
        """Whether every token has been read."""
        return self.current_token.kind == "end"

    @property
    def previous_token(self) -> SqlToken:
        """The token read last."""
        return self._tokens[max(self._at - 1, 0)]

    def source_text(self, span: Span) -> str:
        """Return the characters of a span."""
        return self._text[span.start : span.end]

    def take(self) -> SqlToken:
        """Read a token."""
        token = self.current_token
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def is_at(self, *texts: str) -> bool:
        """Whether the current token is one of these symbols, or of these words in any case."""
        return self._tokens[self._at].keyword in texts

    def accept(self, *texts: str) -> SqlToken | None:
        """Read the token if it is one of these."""
        return self.take() if self.is_at(*texts) else None


class ExpressionParser(TokenStream, ABC):
    """A parser of expressions, as the parts of the grammar know it."""

    def expect(self, text: str) -> SqlToken:
        """Read this token, or raise the error that it was wanted."""
        return self.accept(text) or self._raise_missing(text)

    def _raise_missing(self, text: str) -> SqlToken:
        raise self.unexpected_token_error(f'"{text}"')

    def parse_name(self, wanted: str) -> SqlToken:
        """Read a name, bare or in back quotes."""
        if self.current_token.kind not in ("word", "quoted"):
            raise self.unexpected_token_error(wanted)
        return self.take()

    @abstractmethod
    def unexpected_token_error(self, wanted: str) -> ExpressionError:
        """Return the error for the current token, where another was wanted."""

    @abstractmethod
    def parse_expression(self) -> SyntaxNode:
        """Parse a whole expression: the level of `or`."""

    @abstractmethod
    def parse_value(self, least: int = 0) -> SyntaxNode:
        """Parse an expression of operators that bind at least as tightly as this level."""

    @abstractmethod
    def parse_arguments(self) -> tuple[SyntaxNode, ...]:
        """Parse expressions with commas between them; a star may be an argument of its own."""
