r"""Sets of characters: the characters that one position of a pattern may match.

`\d`, `\w` and `\s` are ASCII in Java and Unicode in Rust, and `.` excludes five line ends in Java
and one in Rust, so no set is copied by name: each is spelt out. The Unicode categories are those of
Unicode 13, which Java 17 has; Rust has Unicode 16, and can select characters by their age.
"""

from __future__ import annotations

import unicodedata

from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """A set of characters; the subclasses below are the only ones."""


@dataclass(frozen=True, slots=True)
class CharacterRange(CharacterSet):
    """The code points from low to high, both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class UnicodeProperty(CharacterSet):
    """A general category or a script, by its Unicode name."""

    name: str


@dataclass(frozen=True, slots=True)
class CharacterUnion(CharacterSet):
    """The union."""

    parts: tuple[CharacterSet, ...]


@dataclass(frozen=True, slots=True)
class CharacterIntersection(CharacterSet):
    """The intersection."""

    left: CharacterSet
    right: CharacterSet


@dataclass(frozen=True, slots=True)
class CharacterComplement(CharacterSet):
    """All characters but these."""

    excluded: CharacterSet


def single_character(code: int) -> CharacterRange:
    """Return the set of one character."""
    return CharacterRange(code, code)


def parse_set(text: str) -> CharacterUnion:
    """Return the set of the characters of a text, where `a-z` is a range.

    >>> write_set(parse_set("a-z_"))
    '[a-z_]'
    """
    parts: list[CharacterSet] = []
    at = 0
    while at < len(text):
        last = at + 2 if text[at + 1 : at + 2] == "-" and at + 2 < len(text) else at
        parts.append(CharacterRange(ord(text[at]), ord(text[last])))
        at = last + 1
    return CharacterUnion(tuple(parts))


LINE_ENDS = frozenset("\n\r\x85\u2028\u2029")
"""The line ends, which `.` does not match and `$` may precede."""

ANY_CHARACTER = CharacterRange(0, 0x10FFFF)
NOT_LINE_END = CharacterComplement(parse_set("\n\r\x85\u2028\u2029"))

# \d, \w, \s, \h and \v; their capitals are the complements.
SHORTHANDS = {
    "d": parse_set("0-9"),
    "w": parse_set("a-zA-Z_0-9"),
    "s": parse_set(" \t\n\x0b\f\r"),
    "h": parse_set(" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"),
    "v": parse_set("\n\x0b\f\r\x85\u2028\u2029"),
}

_PUNCTUATION = "!-/:-@[-`{-~"
_POSIX = {
    "ASCII": parse_set("\x00-\x7f"),
    "Alnum": parse_set("a-zA-Z0-9"),
    "Alpha": parse_set("a-zA-Z"),
    "Blank": parse_set(" \t"),
    "Cntrl": parse_set("\x00-\x1f\x7f"),
    "Digit": parse_set("0-9"),
    "Graph": parse_set("a-zA-Z0-9" + _PUNCTUATION),
    "Lower": parse_set("a-z"),
    "Print": parse_set(" -~"),
    "Punct": parse_set(_PUNCTUATION),
    "Space": SHORTHANDS["s"],
    "Upper": parse_set("A-Z"),
    "XDigit": parse_set("0-9a-fA-F"),
}
# The categories whose characters are the same in Unicode 13 and 16.
_CATEGORIES = frozenset(
    "L Lu Ll Lt Lm Lo M Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp Cc Cf".split()
)
_SCRIPTS = frozenset(
    "Arabic Armenian Bengali Cyrillic Devanagari Georgian Greek Hangul Hebrew Hiragana Katakana "
    "Latin Tamil Thai".split()
)
_CASED_LETTERS = CharacterUnion(
    (UnicodeProperty("Lu"), UnicodeProperty("Ll"), UnicodeProperty("Lt"))
)


def find_property(name: str, ignore_case: bool) -> CharacterSet | None:
    r"""Return the set of `\p{name}`, or None where Rust has no equivalent.

    >>> write_set(find_property("Alpha", ignore_case=False))
    '[a-zA-Z]'
    """
    if ignore_case and name in ("Lower", "Upper"):
        return _POSIX["Alpha"]
    if name in _POSIX:
        return _POSIX[name]
    bare = name.removeprefix("Is")
    if bare in _CATEGORIES:
        return (
            _CASED_LETTERS if ignore_case and bare in ("Lu", "Ll", "Lt") else UnicodeProperty(bare)
        )
    return UnicodeProperty(bare) if bare != name and bare in _SCRIPTS else None


def add_other_case(characters: CharacterRange) -> CharacterSet:
    """Add the other case of ASCII letters to the range, as Java's (?i) does."""
    others = []
    for first, last, offset in ((65, 90, 32), (97, 122, -32)):
        low, high = max(characters.low, first), min(characters.high, last)
        if low <= high:
            others.append(CharacterRange(low + offset, high + offset))
    return CharacterUnion((characters, *others)) if others else characters


def has_character(characters: CharacterSet, character: str) -> bool:
    """Whether the set has the character; no script has a line end."""
    match characters:
        case CharacterRange(low, high):
            return low <= ord(character) <= high
        case UnicodeProperty(name):
            return name in _CATEGORIES and unicodedata.category(character).startswith(name)
        case CharacterUnion(parts):
            return any(has_character(part, character) for part in parts)
        case CharacterIntersection(left, right):
            return has_character(left, character) and has_character(right, character)
        case CharacterComplement(than):
            return not has_character(than, character)
    raise AssertionError(characters)


def write_set(characters: CharacterSet) -> str:
    """Write the set for Rust."""
    match characters:
        case CharacterRange(low, high) if low == high:
            return escape_character(low)
        case CharacterRange(0, 0x10FFFF):
            return "(?s:.)"
        case CharacterComplement(than):
            return f"[^{_write_inner(than)}]"
    return f"[{_write_inner(characters)}]"


def _write_inner(characters: CharacterSet) -> str:
    """Write the set for use inside brackets."""
    match characters:
        case CharacterRange(low, high):
            return (
                escape_character(low)
                if low == high
                else f"{escape_character(low)}-{escape_character(high)}"
            )
        case UnicodeProperty(name):
            return rf"[\p{{{name}}}&&\p{{Age=13.0}}]"
        case CharacterUnion(parts):
            return "".join(map(_write_inner, parts))
        case CharacterIntersection(left, right):
            return f"[{_write_inner(left)}]&&[{_write_inner(right)}]"
        case CharacterComplement(than):
            return f"[^{_write_inner(than)}]"
    raise AssertionError(characters)


def escape_character(code: int) -> str:
    """Write one character for Rust, inside brackets or outside."""
    character = chr(code)
    if character == "_" or (character.isalnum() and character.isascii()):
        return character
    return rf"\x{{{code:X}}}"
