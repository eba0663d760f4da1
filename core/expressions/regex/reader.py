r"""Reader of a pattern, character by character, with its quotes and its escapes.

`\Q...\E` is removed first, as in Java, so that it means the same inside brackets and outside.
"""

from __future__ import annotations

from headrace.core.expressions.regex.characters import (
    SHORTHANDS,
    CharacterComplement,
    CharacterSet,
    find_property,
)
from headrace.core.expressions.regex.errors import RegexError

_CONTROL = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}
_HEX = frozenset("0123456789abcdefABCDEF")
_MAX_NESTING = 50
_OCTAL = frozenset("01234567")


class PatternReader:
    """The characters of a pattern, read from the left."""

    def __init__(self, pattern: str) -> None:
        self.text = expand_quotes(pattern)
        self.at = 0
        self.depth = 0

    def peek(self, ahead: int = 0) -> str:
        """Return the character at this distance from the next one, or "" past the end."""
        return self.text[self.at + ahead : self.at + ahead + 1]

    def take(self) -> str:
        """Read a character; "" at the end."""
        character = self.peek()
        self.at += len(character)
        return character

    def accept(self, text: str) -> bool:
        """Read this text if it comes next, and return whether it did."""
        found = self.text.startswith(text, self.at)
        self.at += len(text) if found else 0
        return found

    def read_until(self, end: str, opened: str) -> str:
        """Read up to and over a character, and return the text before it."""
        found = self.text.find(end, self.at)
        if found < 0:
            raise RegexError(f'the pattern opens "{opened}" and does not close it')
        text = self.text[self.at : found]
        self.at = found + 1
        return text

    def enter_group(self) -> None:
        """Count a nested parenthesis or bracket; Python's stack is finite."""
        self.depth += 1
        if self.depth > _MAX_NESTING:
            message = f"the pattern has more than {_MAX_NESTING} nested groups"
            raise RegexError(message)

    def read_escape(self, ignore_case: bool) -> int | CharacterSet | str:
        """Read an escape after its backslash: a character, a set, or the letter of another
        construct."""
        letter = self.take()
        if letter in _CONTROL and letter:
            return _CONTROL[letter]
        if letter and letter.lower() in SHORTHANDS:
            characters = SHORTHANDS[letter.lower()]
            return characters if letter.islower() else CharacterComplement(characters)
        match letter:
            case "":
                raise RegexError(
                    "the pattern ends with a single backslash", r"write \\ for a backslash"
                )
            case "p" | "P":
                return self._read_property(letter, ignore_case)
            case "0":
                return self._read_octal()
            case "x":
                return self._read_hexadecimal()
            case "u":
                return self._read_unicode()
            case "c":
                return self._read_control()
        return letter if letter.isascii() and letter.isalnum() else ord(letter)

    def _read_property(self, letter: str, ignore_case: bool) -> CharacterSet:
        name = self.read_until("}", rf"\{letter}{{") if self.accept("{") else self.take()
        characters = find_property(name, ignore_case)
        if characters is None:
            raise RegexError(
                rf'the pattern has "\{letter}{{{name}}}", which has no exact translation',
                r"use a posix name as \p{Alpha}, a category as \p{Lu}, a script as \p{IsGreek}",
            )
        return characters if letter == "p" else CharacterComplement(characters)

    def _read_octal(self) -> int:
        max_digits = 3 if self.peek() in set("0123") else 2
        digits = self._read_digits(_OCTAL, max_digits)
        if not digits:
            raise RegexError(r'the pattern has "\0" without an octal number')
        return int(digits, 8)

    def _read_hexadecimal(self) -> int:
        if self.accept("{"):
            digits = self.read_until("}", r"\x{")
            if not digits or not set(digits) <= _HEX or int(digits, 16) > 0x10FFFF:
                raise RegexError(rf'"\x{{{digits}}}" in the pattern is not a character')
        else:
            digits = self._read_digits(_HEX, 2)
            if len(digits) < 2:
                raise RegexError(r'the pattern has "\x" without two hexadecimal digits')
        return _check_surrogate(int(digits, 16))

    def _read_unicode(self) -> int:
        code = self._read_four_digits()
        if 0xD800 <= code < 0xDC00 and self.accept(r"\u"):
            low = self._read_four_digits()
            if 0xDC00 <= low < 0xE000:
                return 0x10000 + (code - 0xD800) * 0x400 + (low - 0xDC00)
        return _check_surrogate(code)

    def _read_four_digits(self) -> int:
        digits = self._read_digits(_HEX, 4)
        if len(digits) < 4:
            raise RegexError(r'the pattern has "\u" without four hexadecimal digits')
        return int(digits, 16)

    def _read_digits(self, allowed: frozenset[str], max_digits: int) -> str:
        start = self.at
        while self.at - start < max_digits and self.peek() in allowed and self.peek():
            self.take()
        return self.text[start : self.at]

    def _read_control(self) -> int:
        character = self.take()
        if not character or not character.isascii() or character == "\\":
            raise RegexError(r'the pattern has "\c" without a letter')
        return ord(character) ^ 64


def _check_surrogate(code: int) -> int:
    if 0xD800 <= code < 0xE000:
        hint = r"\x{1F600} is a whole character"
        raise RegexError("the pattern has half a surrogate pair", hint)
    return code


def expand_quotes(pattern: str) -> str:
    r"""Replace quotes between `\Q` and `\E` by escaped characters.

    >>> expand_quotes(r"a\Q.b\E+")
    'a\\.b+'
    """
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith(r"\Q", at):
            end = pattern.find(r"\E", at + 2)
            end = len(pattern) if end < 0 else end
            parts.extend(_escape_quoted(pattern[at + 2 : end]))
            at = end + 2
        else:
            length = 2 if pattern[at] == "\\" else 1
            parts.append(pattern[at : at + length])
            at += length
    return "".join(parts)


def _escape_quoted(text: str) -> list[str]:
    """Escape each character; letters need none, and a first digit must not extend an escape before
    it."""
    return [
        rf"\x3{character}"
        if index == 0 and character.isascii() and character.isdigit()
        else character
        if not character.isascii() or character.isalnum()
        else f"\\{character}"
        for index, character in enumerate(text)
    ]
