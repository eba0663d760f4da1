"""The values of one CSV record: the rules of the univocity parser, which Spark uses.

A value may be in quotes, in which an escape stands before a quote. A quote that is neither escaped
nor at an end of the value is a character, and the value then ends at the next separator. A line end
is a character too: a text is one record.
"""

from __future__ import annotations

from dataclasses import field

from headrace.core.types.lazy_dataclass import dataclass

NO_CHARACTER = "\0"
_SPACES = "".join(map(chr, range(33)))


@dataclass(frozen=True, slots=True)
class CsvGrammar:
    """The characters of a CSV text, and whether spaces around values belong to them."""

    separator: str = ","
    quote: str = '"'
    escape: str = "\\"
    skips_leading: bool = False
    skips_trailing: bool = False
    empty_value: str = ""
    """The value of a pair of quotes with nothing between."""

    def split(self, text: str) -> list[str | None] | None:
        """Return the values of a record, None for one that is empty; None of an empty text."""
        return _RecordSplitter(text, self).split() if text else None


class _EndOfText(Exception):
    """The end of the text."""


@dataclass(slots=True)
class _RecordSplitter:
    """A record while it is split; the branches are those of univocity."""

    text: str
    grammar: CsvGrammar
    at: int = 0
    character: str = NO_CHARACTER
    previous: str = NO_CHARACTER
    is_unescaped: bool = False
    """Whether the value has a quote that is a character."""
    is_trimmed: bool = False
    parts: list[str] = field(default_factory=list)
    values: list[str | None] = field(default_factory=list)

    def split(self) -> list[str | None]:
        try:
            while True:
                self._take()
                self._split_value()
        except _EndOfText:
            self._end()
        return self.values

    def _split_value(self) -> None:
        """Take one value, and stop at the separator after it."""
        grammar = self.grammar
        if grammar.skips_leading:
            while self.character <= " " and self.character != grammar.separator:
                self._take()
        self.previous, self.is_unescaped = NO_CHARACTER, False
        if self.character == grammar.separator:
            self.values.append(None)
        elif self.character == grammar.quote:
            self.is_trimmed = False
            self._take_quoted()
            self._add(self.grammar.empty_value)
        else:
            self.is_trimmed = grammar.skips_trailing
            self._take_until(grammar.separator)
            self._add(None)

    def _add(self, empty: str | None) -> None:
        text = "".join(self.parts)
        self.values.append((text.rstrip(_SPACES) if self.is_trimmed else text) or empty)
        self.parts.clear()

    def _take(self) -> None:
        if self.at >= len(self.text):
            raise _EndOfText
        self.character = self.text[self.at]
        self.at += 1

    def _take_until(self, *stops: str) -> None:
        """Take characters up to one of the stops."""
        character = self.character
        while character not in stops:
            self.parts.append(character)
            if self.at >= len(self.text):
                raise _EndOfText
            character = self.text[self.at]
            self.at += 1
        self.character = character

    def _take_quoted(self) -> None:
        separator, quote, escape = self.grammar.separator, self.grammar.quote, self.grammar.escape
        self._take()
        while not (
            self.previous == quote and (self.character <= " " or self.character == separator)
        ):
            if self.character in (quote, escape):
                if not self._take_escape():
                    return self._take_rest()
                self.previous = self.character
                self._take()
                continue
            if self.previous == quote:
                self.is_unescaped = True
                self.parts += [quote, self.character]
                return self._take_rest()
            if self.previous == escape != NO_CHARACTER:
                self.parts.append(escape)
            self._take_until(quote, escape)
            self.previous = self.character
            self._take()
        self._take_spaces()
        return None

    def _take_spaces(self) -> None:
        """Take the spaces after a closing quote; with anything after them it closes nothing."""
        separator, spaces = self.grammar.separator, []
        while self.character <= " " and self.character != separator:
            spaces.append(self.character)
            self._take()
        if self.character != separator:
            self.parts += [self.grammar.quote, *spaces, self.character]
            self.previous = self.character
            self._take_rest()

    def _take_rest(self) -> None:
        """Take the rest of a value in which a quote is a character: up to the next separator."""
        self.parts.insert(0, self.grammar.quote)
        self._take()
        self.is_trimmed = self.grammar.skips_trailing
        self._take_until(self.grammar.separator)

    def _take_escape(self) -> bool:
        """Take a quote or an escape in quotes; return whether the value goes on as a quoted one."""
        quote, escape = self.grammar.quote, self.grammar.escape
        escapes_itself = escape not in (quote, NO_CHARACTER)
        if self.character == escape and self.previous == escape and escapes_itself:
            self.parts.append(escape)
            self.character = NO_CHARACTER
        elif self.previous == escape:
            if self.character == quote:
                self.parts.append(quote)
                self.character = NO_CHARACTER
            else:
                self.parts.append(self.previous)
        elif self.character == quote and self.previous == quote:
            self.parts.append(quote)
        elif self.previous == quote:
            # Spark loses some of the next characters, if an escape follows such a quote.
            self.is_unescaped = True
            self.parts += [quote, self.character]
            return False
        return True

    def _end(self) -> None:
        """Add the last value: the text ends in it, or after a separator."""
        quote, is_closed = self.grammar.quote, False
        if self.character == quote:
            is_closed = self.previous == quote
            if not is_closed and not self.is_unescaped:
                self.parts.append(quote)
        in_value = self.previous != NO_CHARACTER and self.character != self.grammar.separator
        is_value = bool(self.parts) or is_closed or in_value
        self._add(self.grammar.empty_value if is_value else None)
