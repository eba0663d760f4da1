"""`[...]`: sets of characters in a pattern, as Java parses them.

Sets may be nested, and `&&` is the intersection of two, with the lowest precedence. Where Java
interprets the rest in its own way (`[a&&]`, `[a&&[b]c]`), the pattern is refused.
"""

from __future__ import annotations

from headrace.core.expressions.regex.characters import (
    AnyOf,
    Both,
    Characters,
    Other,
    Range,
    either_case,
)
from headrace.core.expressions.regex.errors import PatternError
from headrace.core.expressions.regex.reader import Reader


def bracket(reader: Reader, ignore_case: bool) -> Characters:
    """Read a set, from after its opening bracket to after its closing one."""
    reader.descend()
    negated = reader.accept("^")
    result: Characters | None = None
    while True:
        part = AnyOf(tuple(_items(reader, ignore_case, first=result is None)))
        if not part.parts:
            raise _unclear() if reader.peek() else _unclosed()
        result = Both(result, part) if result else part
        if reader.accept("]"):
            reader.depth -= 1
            return Other(result) if negated else result
        _intersection(reader)


def _intersection(reader: Reader) -> None:
    """Read a `&&`; it is followed by one set in brackets, or by none up to the next."""
    if not reader.accept("&&"):
        raise _unclosed()
    if reader.peek() in ("&", "]"):
        raise _unclear()


def _items(reader: Reader, ignore_case: bool, first: bool) -> list[Characters]:
    """Read the parts of a union: up to the closing bracket or `&&`, neither of which is read."""
    items: list[Characters] = []
    nested = False
    while (character := reader.peek()) and not reader.text.startswith("&&", reader.at):
        if character == "]" and items:
            break
        if character == "[":
            reader.take()
            items.append(bracket(reader, ignore_case))
            nested = True
        else:
            items.append(_item(reader, ignore_case))
        if nested and not first and len(items) > 1:
            raise _unclear()
    return items


def _item(reader: Reader, ignore_case: bool) -> Characters:
    """Read a character, a range, or an escape that stands for a set."""
    low = _member(reader, ignore_case)
    if isinstance(low, Characters):
        return low
    if reader.peek() != "-" or reader.peek(1) in ("[", "]"):
        return _cased(Range(low, low), ignore_case)
    start = reader.at
    reader.take()
    high = _member(reader, ignore_case)
    if isinstance(high, Characters) or high < low:
        shown = reader.text[start : reader.at]
        raise PatternError(f'the pattern has a range that ends before it starts: "{shown}"')
    return _cased(Range(low, high), ignore_case)


def _member(reader: Reader, ignore_case: bool) -> int | Characters:
    character = reader.take()
    if not character:
        raise _unclosed()
    if character != "\\":
        return ord(character)
    if reader.peek() == "v":
        raise PatternError(r'"\v" in brackets means two things in Java', r"write \x0B or \R")
    found = reader.escape(ignore_case)
    if isinstance(found, str):
        raise PatternError(rf'"\{found}" has no meaning inside brackets')
    return found


def _cased(characters: Range, ignore_case: bool) -> Characters:
    return either_case(characters) if ignore_case else characters


def _unclear() -> PatternError:
    message = 'the pattern has "&&" in brackets with no clear set on one side'
    return PatternError(message, "write [a-z&&[^aeiou]]: a set in brackets after &&")


def _unclosed() -> PatternError:
    return PatternError(
        'the pattern opens "[" and does not close it', r"write \[ for the character"
    )
