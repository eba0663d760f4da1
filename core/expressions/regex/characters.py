r"""Sets of characters: the characters that one position of a pattern may match.

`\d`, `\w` and `\s` are ASCII in Java and Unicode in Rust, and `.` excludes five line ends in Java
and one in Rust, so no set is copied by name: each is spelt out. The Unicode categories are those of
Unicode 13, which Java 17 has; Rust has Unicode 16, and can select characters by their age.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Characters:
    """A set of characters; the subclasses below are the only ones."""


@dataclass(frozen=True, slots=True)
class Range(Characters):
    """The code points from low to high, both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Property(Characters):
    """A general category or a script, by its Unicode name."""

    name: str


@dataclass(frozen=True, slots=True)
class AnyOf(Characters):
    """The union."""

    parts: tuple[Characters, ...]


@dataclass(frozen=True, slots=True)
class Both(Characters):
    """The intersection."""

    left: Characters
    right: Characters


@dataclass(frozen=True, slots=True)
class Other(Characters):
    """All characters but these."""

    than: Characters


def single(code: int) -> Range:
    """Return the set of one character."""
    return Range(code, code)


def spelt(text: str) -> AnyOf:
    """Return the set of the characters of a text, where `a-z` is a range.

    >>> write(spelt("a-z_"))
    '[a-z_]'
    """
    parts: list[Characters] = []
    at = 0
    while at < len(text):
        last = at + 2 if text[at + 1 : at + 2] == "-" and at + 2 < len(text) else at
        parts.append(Range(ord(text[at]), ord(text[last])))
        at = last + 1
    return AnyOf(tuple(parts))


LINE_ENDS = frozenset("\n\r\x85\u2028\u2029")
"""The line ends, which `.` does not match and `$` may precede."""

EVERY = Range(0, 0x10FFFF)
IN_LINE = Other(spelt("\n\r\x85\u2028\u2029"))

# \d, \w, \s, \h and \v; their capitals are the complements.
SHORT = {
    "d": spelt("0-9"),
    "w": spelt("a-zA-Z_0-9"),
    "s": spelt(" \t\n\x0b\f\r"),
    "h": spelt(" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"),
    "v": spelt("\n\x0b\f\r\x85\u2028\u2029"),
}

_PUNCTUATION = "!-/:-@[-`{-~"
_POSIX = {
    "ASCII": spelt("\x00-\x7f"),
    "Alnum": spelt("a-zA-Z0-9"),
    "Alpha": spelt("a-zA-Z"),
    "Blank": spelt(" \t"),
    "Cntrl": spelt("\x00-\x1f\x7f"),
    "Digit": spelt("0-9"),
    "Graph": spelt("a-zA-Z0-9" + _PUNCTUATION),
    "Lower": spelt("a-z"),
    "Print": spelt(" -~"),
    "Punct": spelt(_PUNCTUATION),
    "Space": SHORT["s"],
    "Upper": spelt("A-Z"),
    "XDigit": spelt("0-9a-fA-F"),
}
# The categories whose characters are the same in Unicode 13 and 16.
_CATEGORIES = frozenset(
    "L Lu Ll Lt Lm Lo M Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp Cc Cf".split()
)
_SCRIPTS = frozenset(
    "Arabic Armenian Bengali Cyrillic Devanagari Georgian Greek Hangul Hebrew Hiragana Katakana "
    "Latin Tamil Thai".split()
)
_CASED = AnyOf((Property("Lu"), Property("Ll"), Property("Lt")))


def named(name: str, ignore_case: bool) -> Characters | None:
    r"""Return the set of `\p{name}`, or None where Rust has no equivalent.

    >>> write(named("Alpha", ignore_case=False))
    '[a-zA-Z]'
    """
    if ignore_case and name in ("Lower", "Upper"):
        return _POSIX["Alpha"]
    if name in _POSIX:
        return _POSIX[name]
    bare = name.removeprefix("Is")
    if bare in _CATEGORIES:
        return _CASED if ignore_case and bare in ("Lu", "Ll", "Lt") else Property(bare)
    return Property(bare) if bare != name and bare in _SCRIPTS else None


def either_case(characters: Range) -> Characters:
    """Add the other case of ASCII letters to the range, as Java's (?i) does."""
    others = []
    for first, last, offset in ((65, 90, 32), (97, 122, -32)):
        low, high = max(characters.low, first), min(characters.high, last)
        if low <= high:
            others.append(Range(low + offset, high + offset))
    return AnyOf((characters, *others)) if others else characters


def holds(characters: Characters, character: str) -> bool:
    """Whether the set has the character; no script has a line end."""
    match characters:
        case Range(low, high):
            return low <= ord(character) <= high
        case Property(name):
            return name in _CATEGORIES and unicodedata.category(character).startswith(name)
        case AnyOf(parts):
            return any(holds(part, character) for part in parts)
        case Both(left, right):
            return holds(left, character) and holds(right, character)
        case Other(than):
            return not holds(than, character)
    raise AssertionError(characters)


def write(characters: Characters) -> str:
    """Write the set for Rust."""
    match characters:
        case Range(low, high) if low == high:
            return escaped(low)
        case Range(0, 0x10FFFF):
            return "(?s:.)"
        case Other(than):
            return f"[^{_inner(than)}]"
    return f"[{_inner(characters)}]"


def _inner(characters: Characters) -> str:
    """Write the set for use inside brackets."""
    match characters:
        case Range(low, high):
            return escaped(low) if low == high else f"{escaped(low)}-{escaped(high)}"
        case Property(name):
            return rf"[\p{{{name}}}&&\p{{Age=13.0}}]"
        case AnyOf(parts):
            return "".join(map(_inner, parts))
        case Both(left, right):
            return f"[{_inner(left)}]&&[{_inner(right)}]"
        case Other(than):
            return f"[^{_inner(than)}]"
    raise AssertionError(characters)


def escaped(code: int) -> str:
    """Write one character for Rust, inside brackets or outside."""
    character = chr(code)
    if character == "_" or (character.isalnum() and character.isascii()):
        return character
    return rf"\x{{{code:X}}}"
