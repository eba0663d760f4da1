r"""What Java's patterns have and Rust's engine cannot do, with what to write instead.

Look-around, back-references and possessive repetition need an engine that backtracks. `\b` is here
because Java itself changed it: up to 18 a word has any letters, from 19 on ASCII ones.
"""

from __future__ import annotations

from headrace.core.expressions.regex.errors import PatternError

_NONE = "has no exact translation"
_BOUNDARY = "spell the neighbours out: (^|[^A-Za-z0-9_])word([^A-Za-z0-9_]|$)"
_COMPARE = "compare two regexp_extract(...) with ="
_AROUND = "match what is around as well, and take the part with regexp_extract"
_NEGATED = "use a second condition: ... and not x rlike '...'"

# By what is written: what it is, why it is refused, what to write instead.
_CONSTRUCTS = {
    "(?=": ("a look-ahead", _NONE, _AROUND),
    "(?!": ("a look-ahead", _NONE, _NEGATED),
    "(?<=": ("a look-behind", _NONE, _AROUND),
    "(?<!": ("a look-behind", _NONE, _NEGATED),
    "(?>": ("an atomic group", _NONE, "write (?:...)"),
    "(?d)": ("the flag", _NONE, r"write [^\n] for . and \z for $"),
    "(?x)": ("the flag", _NONE, "write the pattern without spaces and comments"),
    "(?u)": ("the flag", _NONE, "lower(...) makes the text small before"),
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
        'without its last "+" it is the usual one, which gives back what must match later',
    ),
}

GROUPS = ("(?=", "(?!", "(?<=", "(?<!", "(?>")
"""The openings of groups that are refused."""


def refuse(written: str) -> None:
    """Raises the PatternError that says why there is no such thing, if it is one of them."""
    if written in _CONSTRUCTS:
        what, why, hint = _CONSTRUCTS[written]
        raise PatternError(f'the pattern has {what} "{written}", which {why}', hint)
