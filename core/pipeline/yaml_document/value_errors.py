"""Syntax errors of a single line: values that YAML reads as something else.

Users write an expression as text. To YAML a value that begins with a quote, a bracket or one of
`* & ! | > @ %` and the back quote has a special meaning, and ": " in its middle ends a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from headrace.core.errors.problems import Problem
from headrace.core.pipeline.yaml_document.error_context import (
    ContextLine,
    YamlErrorContext,
    suggest_quotes,
)

INDICATOR_MEANINGS = {
    "*": "refers to an anchor",
    "&": "sets an anchor",
    "!": "sets a tag",
    "|": "begins a block of text",
    ">": "begins a block of text",
    "[": "begins a list",
    "{": "begins a mapping",
}
BLOCK_PATTERN = re.compile(r"[|>][-+\d]{0,2}")
ANCHOR_PATTERN = re.compile(r"[&*][\w-]+")


def find_line_error(context: YamlErrorContext, line: ContextLine) -> Problem | None:
    """Return the error in the value of a line, if it is a common one."""
    entry = line.entry or _match_entry_with_colons(line)
    if entry is None or entry["value"] is None:
        return None
    start = line.start + entry.start("value")
    for rule in VALUE_RULES:
        found = rule(context, start, entry["value"], entry["key"])
        if found:
            return found
    return None


def _match_entry_with_colons(line: ContextLine) -> re.Match[str] | None:
    """Match a key whose value contains a ": " or a comment."""
    pattern = r"(?P<dashes>(?:- +)*)(?P<key>[^\s:#'\"\[{][^:#]*?) *:[ \t]+(?P<value>.*\S)"
    return re.compile(pattern).match(line.text, line.indent)


def _find_forbidden_start(
    context: YamlErrorContext, at: int, value: str, key: str
) -> Problem | None:
    if value[0] not in "@`%":
        return None
    return context.make_problem(
        f"in YAML a value cannot begin with {_describe_character(value[0])}",
        at,
        at + 1,
        suggest_quotes(_strip_comment(value), key),
    )


def _describe_character(sign: str) -> str:
    return "a back quote" if sign == "`" else f'"{sign}"'


def _find_list_start(context: YamlErrorContext, at: int, value: str, key: str) -> Problem | None:
    if not value.startswith(("- ", "? ")):
        return None
    if value[0] == "?":
        return context.make_problem(
            '"? " cannot begin a value', at, at + 1, suggest_quotes(value, key)
        )
    hint = f'write {key}: [a, b], or each "- " on a line of its own below "{key}:"'
    return context.make_problem("a list cannot begin on the line of its key", at, at + 1, hint)


def _find_indicator_start(
    context: YamlErrorContext, at: int, value: str, key: str
) -> Problem | None:
    """Find a special character at the start of an expression: `*`, `>= 5`, `!(a > b)`, `& x`."""
    first, bare = value[0], _strip_comment(value)
    if first not in "*&!|>" or BLOCK_PATTERN.fullmatch(bare) or ANCHOR_PATTERN.fullmatch(bare):
        return None
    if first == "&" and ANCHOR_PATTERN.match(bare) and not re.match(r"&[\w-]+\s+[<>=|!*/+-]", bare):
        return None
    message = f'in YAML "{first}" at the start of a value {INDICATOR_MEANINGS[first]}'
    return context.make_problem(message, at, at + 1, suggest_quotes(bare, key))


def _find_text_after_bracket(
    context: YamlErrorContext, at: int, value: str, key: str
) -> Problem | None:
    if value[0] not in "[{":
        return None
    end = find_closing_bracket(value, 0)
    rest = _strip_comment(value[end:]).strip() if end else ""
    if not rest:
        return None
    if rest[0] in "]}":
        stray = at + end + value[end:].index(rest[0])
        return context.make_problem(f'this "{rest[0]}" has no opening bracket', stray, stray + 1)
    message = (
        f'in YAML "{value[0]}" at the start of a value {INDICATOR_MEANINGS[value[0]]}, which '
        "ends here"
    )
    hint = suggest_quotes(_strip_comment(value), key)
    return context.make_problem(message, at + end - 1, at + end, hint)


def _find_text_after_quote(
    context: YamlErrorContext, at: int, value: str, key: str
) -> Problem | None:
    if value[0] not in "'\"":
        return None
    found = QUOTED_PATTERN.match(value)
    if not found:
        message = f"this quote ({value[0]}) is not closed on its line"
        return context.make_problem(message, at, at + 1, f"add a {value[0]} where it ends")
    rest = value[found.end() :]
    if not rest.strip() or re.match(r"\s+#", rest) or rest.lstrip()[0] in ":":
        return None
    start = at + found.end() + len(rest) - len(rest.lstrip())
    message = "a value that begins with a quote ends at the next one, but more text follows"
    hint = suggest_quotes(_strip_comment(value), key)
    return context.make_problem(message, start, at + len(value), hint)


def _find_colon(context: YamlErrorContext, at: int, value: str, key: str) -> Problem | None:
    found = re.search(r":(\s|$)", _strip_comment(value))
    if not found or value[0] in "'\"[{|>&*!":
        return None
    message = 'a ":" followed by a space, in a value without quotes'
    start = at + found.start()
    return context.make_problem(
        message, start, start + 1, suggest_quotes(_strip_comment(value), key)
    )


VALUE_RULES: tuple[Callable[[YamlErrorContext, int, str, str], Problem | None], ...] = (
    _find_forbidden_start,
    _find_list_start,
    _find_indicator_start,
    _find_text_after_bracket,
    _find_text_after_quote,
    _find_colon,
)

QUOTED_PATTERN = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'""")
VALUE_TOKEN = re.compile(rf"{QUOTED_PATTERN.pattern}|[^'\"]|['\"]")


def find_closing_bracket(text: str, start: int) -> int:
    """Return the offset after the bracket that closes the one at `start`; 0 if there is none.

    >>> find_closing_bracket("[a, '[', b] x", 0)
    11
    """
    depth = 0
    for piece in VALUE_TOKEN.finditer(text, start):
        if piece[0] in ("[", "{", "("):
            depth += 1
        elif piece[0] in ("]", "}", ")"):
            depth -= 1
            if not depth:
                return piece.end()
    return 0


def _strip_comment(value: str) -> str:
    return re.sub(r"\s+#.*", "", value)
