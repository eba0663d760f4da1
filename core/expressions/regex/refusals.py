r"""Constructs of Java's patterns that Rust's engine cannot run, with alternatives.

Look-around, back-references and possessive repetition need an engine that backtracks. `\b` is here
because Java itself changed it: up to Java 18 a word has any letters, from 19 on ASCII letters.
"""

from __future__ import annotations

from headrace.core.expressions.regex.errors import PatternError

_NONE = "has no exact translation"
_BOUNDARY = "spell the neighbours out: (^|[^A-Za-z0-9_])word([^A-Za-z0-9_]|$)"
_COMPARE = "compare two regexp_extract(...) with ="
_AROUND = "match the surrounding text too, and take the part with regexp_extract"
_NEGATED = "use a second condition: ... and not x rlike '...'"

# By its text: the construct, why it is refused, and what to write instead.
_CONSTRUCTS = {
    "(?=": ("a look-ahead", _NONE, _AROUND),
    "(?!": ("a look-ahead", _NONE, _NEGATED),
    "(?<=": ("a look-behind", _NONE, _AROUND),
    "(?<!": ("a look-behind", _NONE, _NEGATED),
    "(?>": ("an atomic group", _NONE, "write (?:...)"),
    "(?d)": ("the flag", _NONE, r"write [^\n] for . and \z for $"),
    "(?x)": ("the flag", _NONE, "write the pattern without spaces and comments"),
    "(?u)": ("the flag", _NONE, "apply lower(...) to the text first"),
    "(?U)": ("the flag", _NONE, r"write \p{L} for letters, \p{Nd} for digits"),
    "(?c)": ("the flag", _NONE, ""),
    r"\b": ("the word boundary", "differs between versions of Java", _BOUNDARY),
    r"\B": ("the word boundary", "differs between versions of Java", _BOUNDARY),
    r"\G": ("the anchor", _NONE, "use ^ for the start"),
    r"\X": ("the grapheme", _NONE, "use . for a character"),
    r"\N": ("the named character", _NONE, r"write the character itself, or \x{...}"),
    r"\k": ("the back-reference", _NONE, _COMPARE),
    **{rf"\{digit}": ("the back-reference", _NONE, _COMPARE) for digit in range(1, 10)},
    "++": (
        "a possessive repetition, as in",
        _NONE,
        'without its last "+" it is the usual repetition, which backtracks',
    ),
}

GROUPS = ("(?=", "(?!", "(?<=", "(?<!", "(?>")
"""The openings of groups that are refused."""


def refuse(written: str) -> None:
    """Raise the PatternError of an unsupported construct, if this is one."""
    if written in _CONSTRUCTS:
        what, why, hint = _CONSTRUCTS[written]
        raise PatternError(f'the pattern has {what} "{written}", which {why}', hint)
