"""Errors of patterns and replacements.

Constructs of Java's patterns that Rust's engine cannot run, with alternatives.

Look-around, back-references and possessive repetition need an engine that backtracks. `\b` is here
because Java itself changed it: up to Java 18 a word has any letters, from 19 on ASCII letters.
"""

from __future__ import annotations


class RegexError(Exception):
    """A pattern is invalid, or has no exact counterpart: the reason, and an alternative."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ReplacementError(RegexError):
    """The replacement is invalid, not the pattern."""


_NO_TRANSLATION = "has no exact translation"


_BOUNDARY_HINT = "spell the neighbours out: (^|[^A-Za-z0-9_])word([^A-Za-z0-9_]|$)"


_COMPARE_HINT = "compare two regexp_extract(...) with ="


_CONTEXT_HINT = "match the surrounding text too, and take the part with regexp_extract"


_NEGATION_HINT = "use a second condition: ... and not x rlike '...'"


# By its text: the construct, why it is refused, and what to write instead.
_REFUSED_CONSTRUCTS = {
    "(?=": ("a look-ahead", _NO_TRANSLATION, _CONTEXT_HINT),
    "(?!": ("a look-ahead", _NO_TRANSLATION, _NEGATION_HINT),
    "(?<=": ("a look-behind", _NO_TRANSLATION, _CONTEXT_HINT),
    "(?<!": ("a look-behind", _NO_TRANSLATION, _NEGATION_HINT),
    "(?>": ("an atomic group", _NO_TRANSLATION, "write (?:...)"),
    "(?d)": ("the flag", _NO_TRANSLATION, r"write [^\n] for . and \z for $"),
    "(?x)": ("the flag", _NO_TRANSLATION, "write the pattern without spaces and comments"),
    "(?u)": ("the flag", _NO_TRANSLATION, "apply lower(...) to the text first"),
    "(?U)": ("the flag", _NO_TRANSLATION, r"write \p{L} for letters, \p{Nd} for digits"),
    "(?c)": ("the flag", _NO_TRANSLATION, ""),
    r"\b": ("the word boundary", "differs between versions of Java", _BOUNDARY_HINT),
    r"\B": ("the word boundary", "differs between versions of Java", _BOUNDARY_HINT),
    r"\G": ("the anchor", _NO_TRANSLATION, "use ^ for the start"),
    r"\X": ("the grapheme", _NO_TRANSLATION, "use . for a character"),
    r"\N": ("the named character", _NO_TRANSLATION, r"write the character itself, or \x{...}"),
    r"\k": ("the back-reference", _NO_TRANSLATION, _COMPARE_HINT),
    **{
        rf"\{digit}": ("the back-reference", _NO_TRANSLATION, _COMPARE_HINT)
        for digit in range(1, 10)
    },
    "++": (
        "a possessive repetition, as in",
        _NO_TRANSLATION,
        'without its last "+" it is the usual repetition, which backtracks',
    ),
}


REFUSED_GROUPS = ("(?=", "(?!", "(?<=", "(?<!", "(?>")
"""The openings of groups that are refused."""


def refuse_construct(written: str) -> None:
    """Raise the RegexError of an unsupported construct, if this is one."""
    if written in _REFUSED_CONSTRUCTS:
        what, why, hint = _REFUSED_CONSTRUCTS[written]
        raise RegexError(f'the pattern has {what} "{written}", which {why}', hint)
