"""`[...]`: sets of characters in a pattern, as Java parses them.

Sets may be nested, and `&&` is the intersection of two, with the lowest precedence. Where Java
interprets the rest in its own way (`[a&&]`, `[a&&[b]c]`), the pattern is refused.
"""

from __future__ import annotations

from headrace.core.expressions.regex.characters import (
    CharacterComplement,
    CharacterIntersection,
    CharacterRange,
    CharacterSet,
    CharacterUnion,
    add_other_case,
)
from headrace.core.expressions.regex.errors import RegexError
from headrace.core.expressions.regex.reader import PatternReader


def read_bracket(reader: PatternReader, ignore_case: bool) -> CharacterSet:
    """Read a set, from after its opening bracket to after its closing one."""
    reader.enter_group()
    negated = reader.accept("^")
    result: CharacterSet | None = None
    while True:
        part = CharacterUnion(tuple(_read_items(reader, ignore_case, first=result is None)))
        if not part.parts:
            raise _unclear_error() if reader.peek() else _unclosed_error()
        result = CharacterIntersection(result, part) if result else part
        if reader.accept("]"):
            reader.depth -= 1
            return CharacterComplement(result) if negated else result
        _read_intersection(reader)


def _read_intersection(reader: PatternReader) -> None:
    """Read a `&&`; it is followed by one set in brackets, or by none up to the next."""
    if not reader.accept("&&"):
        raise _unclosed_error()
    if reader.peek() in ("&", "]"):
        raise _unclear_error()


def _read_items(reader: PatternReader, ignore_case: bool, first: bool) -> list[CharacterSet]:
    """Read the parts of a union: up to the closing bracket or `&&`, neither of which is read."""
    items: list[CharacterSet] = []
    nested = False
    while (character := reader.peek()) and not reader.text.startswith("&&", reader.at):
        if character == "]" and items:
            break
        if character == "[":
            reader.take()
            items.append(read_bracket(reader, ignore_case))
            nested = True
        else:
            items.append(_read_item(reader, ignore_case))
        if nested and not first and len(items) > 1:
            raise _unclear_error()
    return items


def _read_item(reader: PatternReader, ignore_case: bool) -> CharacterSet:
    """Read a character, a range, or an escape that stands for a set."""
    low = _read_member(reader, ignore_case)
    if isinstance(low, CharacterSet):
        return low
    if reader.peek() != "-" or reader.peek(1) in ("[", "]"):
        return _apply_case(CharacterRange(low, low), ignore_case)
    start = reader.at
    reader.take()
    high = _read_member(reader, ignore_case)
    if isinstance(high, CharacterSet) or high < low:
        shown = reader.text[start : reader.at]
        raise RegexError(f'the pattern has a range that ends before it starts: "{shown}"')
    return _apply_case(CharacterRange(low, high), ignore_case)


def _read_member(reader: PatternReader, ignore_case: bool) -> int | CharacterSet:
    character = reader.take()
    if not character:
        raise _unclosed_error()
    if character != "\\":
        return ord(character)
    if reader.peek() == "v":
        raise RegexError(r'"\v" in brackets means two things in Java', r"write \x0B or \R")
    found = reader.read_escape(ignore_case)
    if isinstance(found, str):
        raise RegexError(rf'"\{found}" has no meaning inside brackets')
    return found


def _apply_case(characters: CharacterRange, ignore_case: bool) -> CharacterSet:
    return add_other_case(characters) if ignore_case else characters


def _unclear_error() -> RegexError:
    message = 'the pattern has "&&" in brackets with no clear set on one side'
    return RegexError(message, "write [a-z&&[^aeiou]]: a set in brackets after &&")


def _unclosed_error() -> RegexError:
    return RegexError('the pattern opens "[" and does not close it', r"write \[ for the character")
