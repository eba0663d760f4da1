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


def explain_bracket_error(scene: YamlErrorContext) -> Problem:
    """Return why a list or mapping in brackets could not be read."""
    opened = scene.text[scene.node_start]
    if scene.is_at_end:
        return _make_unclosed_problem(scene)
    if scene.character == ",":
        return scene.make_problem('wanted a value before ","', scene.offset, scene.offset + 1)
    if scene.character in "]}":
        message = (
            f'wanted "{CLOSING_BRACKETS[opened]}" for the "{opened}" of {_describe_line(scene)}'
        )
        return scene.make_problem(
            f'{message}, got "{scene.character}"', scene.offset, scene.offset + 1
        )
    if scene.character in "[{":
        return _explain_inner_bracket(scene)
    if scene.character == ":":
        return _explain_colon(scene)
    line, first = scene.get_line(scene.offset), scene.get_line(scene.node_start)
    if line.start > first.start and line.indent <= first.indent:
        return _make_unclosed_problem(scene)
    return scene.make_problem(
        f'wanted "," or "{CLOSING_BRACKETS[opened]}" here', scene.offset, scene.offset + 1
    )


def find_innermost_bracket(scene: YamlErrorContext) -> YamlErrorContext | None:
    """Return the context of the innermost bracket that is open at the error, if there is one."""
    stack: list[int] = []
    for piece in FLOW_TOKEN.finditer(scene.text, 0, scene.offset):
        if piece[0] in "[{":
            stack.append(piece.start())
        elif piece[0] in "]}" and stack:
            stack.pop()
    return replace(scene, node_start=stack[-1]) if stack else None


def _describe_line(scene: YamlErrorContext) -> str:
    line = scene.file.locate(scene.node_start, scene.node_start).line
    same = line == scene.file.locate(scene.offset, scene.offset).line
    return "this line" if same else f"line {line}"


def _make_unclosed_problem(scene: YamlErrorContext) -> Problem:
    opened = scene.text[scene.node_start]
    hint = f'add a "{CLOSING_BRACKETS[opened]}" where it ends'
    return scene.make_problem(
        f'this "{opened}" is not closed', scene.node_start, scene.node_start + 1, hint
    )


def _explain_inner_bracket(scene: YamlErrorContext) -> Problem:
    """Return the problem of a bracket in the middle of a value: `items[0]`, `${env:NAME}`."""
    start = _find_value_start(scene)
    value = _extract_value(scene, start)
    message = f'a "{scene.character}" in a value without quotes, inside brackets'
    return scene.make_problem(message, scene.offset, scene.offset + 1, suggest_quotes(value))


def _explain_colon(scene: YamlErrorContext) -> Problem:
    """Return the problem of a second ": ": a comma, quotes or the closing bracket is missing."""
    line, first = scene.get_line(scene.offset), scene.get_line(scene.node_start)
    starts_line = bool(re.fullmatch(r"\s*[\w.-]+", scene.text[line.start : scene.offset]))
    if starts_line and (
        line.indent <= first.indent or not find_closing_bracket(scene.text, scene.node_start)
    ):
        return _make_unclosed_problem(scene)
    start = _find_value_start(scene)
    before = scene.text[start : scene.offset]
    word = re.search(r"\s([\w.-]+)\s*$", before)
    if word:
        at = start + word.start(1)
        hint = "or put quotes around the value that it belongs to"
        return scene.make_problem(f'wanted "," before "{word[1]}"', at, at + len(word[1]), hint)
    message = 'a ":" followed by a space, in a value without quotes'
    return scene.make_problem(
        message, scene.offset, scene.offset + 1, suggest_quotes(_extract_value(scene, start))
    )


def _find_value_start(scene: YamlErrorContext) -> int:
    """Return the offset at which the unquoted value that YAML was reading begins."""
    start = scene.offset
    while start > scene.node_start + 1 and scene.text[start - 1] not in ",[{":
        if re.match(r":\s", scene.text[start - 1 : start + 1]):
            break
        start -= 1
    return (
        start
        + len(scene.text[start : scene.offset])
        - len(scene.text[start : scene.offset].lstrip())
    )


def _extract_value(scene: YamlErrorContext, start: int) -> str:
    """Return the value up to the comma or bracket that was probably meant to end it."""
    end, depth = start, 0
    while end < len(scene.text) and scene.text[end] not in "\r\n":
        sign = scene.text[end]
        if sign in "[{(<":
            depth += 1
        elif sign in ",]})" and depth <= 0:
            break
        elif sign in "]})>":
            depth -= 1
        end += 1
    return scene.text[start:end]
