"""Syntax errors inside brackets: `[a, b]` and `{x: a, y: b}`.

YAML reports that it expected a comma or the closing bracket. The cause is a bracket that was never
closed, or a value that needs quotes because brackets and ": " are special inside brackets.
"""

from __future__ import annotations

import re
from dataclasses import replace

from headrace.core.errors.problems import Problem
from headrace.core.pipeline.yaml_document.error_context import YamlErrorContext, suggest_quotes
from headrace.core.pipeline.yaml_document.value_errors import find_closing_bracket

CLOSING_BRACKETS = {"[": "]", "{": "}"}
FLOW_TOKEN = re.compile(
    r"""(?<![^\s\[{,(:])(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*') | (?:^|(?<=\s))\#[^\n]* | [\[\]{}]""",
    re.VERBOSE | re.MULTILINE,
)


def explain_bracket_error(context: YamlErrorContext) -> Problem:
    """Return why a list or mapping in brackets could not be read."""
    opened = context.text[context.node_start]
    if context.is_at_end:
        return _make_unclosed_problem(context)
    if context.character == ",":
        return context.make_problem('wanted a value before ","', context.offset, context.offset + 1)
    if context.character in "]}":
        message = (
            f'wanted "{CLOSING_BRACKETS[opened]}" for the "{opened}" of {_describe_line(context)}'
        )
        return context.make_problem(
            f'{message}, got "{context.character}"', context.offset, context.offset + 1
        )
    if context.character in "[{":
        return _explain_inner_bracket(context)
    if context.character == ":":
        return _explain_colon(context)
    line, first = context.get_line(context.offset), context.get_line(context.node_start)
    if line.start > first.start and line.indent <= first.indent:
        return _make_unclosed_problem(context)
    return context.make_problem(
        f'wanted "," or "{CLOSING_BRACKETS[opened]}" here', context.offset, context.offset + 1
    )


def find_innermost_bracket(context: YamlErrorContext) -> YamlErrorContext | None:
    """Return the context of the innermost bracket that is open at the error, if there is one."""
    stack: list[int] = []
    for piece in FLOW_TOKEN.finditer(context.text, 0, context.offset):
        if piece[0] in "[{":
            stack.append(piece.start())
        elif piece[0] in "]}" and stack:
            stack.pop()
    return replace(context, node_start=stack[-1]) if stack else None


def _describe_line(context: YamlErrorContext) -> str:
    line = context.file.locate(context.node_start, context.node_start).line
    same = line == context.file.locate(context.offset, context.offset).line
    return "this line" if same else f"line {line}"


def _make_unclosed_problem(context: YamlErrorContext) -> Problem:
    opened = context.text[context.node_start]
    hint = f'add a "{CLOSING_BRACKETS[opened]}" where it ends'
    return context.make_problem(
        f'this "{opened}" is not closed', context.node_start, context.node_start + 1, hint
    )


def _explain_inner_bracket(context: YamlErrorContext) -> Problem:
    """Return the problem of a bracket in the middle of a value: `items[0]`, `${env:NAME}`."""
    start = _find_value_start(context)
    value = _extract_value(context, start)
    message = f'a "{context.character}" in a value without quotes, inside brackets'
    return context.make_problem(message, context.offset, context.offset + 1, suggest_quotes(value))


def _explain_colon(context: YamlErrorContext) -> Problem:
    """Return the problem of a second ": ": a comma, quotes or the closing bracket is missing."""
    line, first = context.get_line(context.offset), context.get_line(context.node_start)
    starts_line = bool(re.fullmatch(r"\s*[\w.-]+", context.text[line.start : context.offset]))
    if starts_line and (
        line.indent <= first.indent or not find_closing_bracket(context.text, context.node_start)
    ):
        return _make_unclosed_problem(context)
    start = _find_value_start(context)
    before = context.text[start : context.offset]
    word = re.search(r"\s([\w.-]+)\s*$", before)
    if word:
        at = start + word.start(1)
        hint = "or put quotes around the value that it belongs to"
        return context.make_problem(f'wanted "," before "{word[1]}"', at, at + len(word[1]), hint)
    message = 'a ":" followed by a space, in a value without quotes'
    return context.make_problem(
        message, context.offset, context.offset + 1, suggest_quotes(_extract_value(context, start))
    )


def _find_value_start(context: YamlErrorContext) -> int:
    """Return the offset at which the unquoted value that YAML was reading begins."""
    start = context.offset
    while start > context.node_start + 1 and context.text[start - 1] not in ",[{":
        if re.match(r":\s", context.text[start - 1 : start + 1]):
            break
        start -= 1
    return (
        start
        + len(context.text[start : context.offset])
        - len(context.text[start : context.offset].lstrip())
    )


def _extract_value(context: YamlErrorContext, start: int) -> str:
    """Return the value up to the comma or bracket that was probably meant to end it."""
    end, depth = start, 0
    while end < len(context.text) and context.text[end] not in "\r\n":
        sign = context.text[end]
        if sign in "[{(<":
            depth += 1
        elif sign in ",]})" and depth <= 0:
            break
        elif sign in "]})>":
            depth -= 1
        end += 1
    return context.text[start:end]
