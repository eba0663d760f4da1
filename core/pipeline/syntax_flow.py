"""Syntax errors inside brackets: `[a, b]` and `{x: a, y: b}`.

YAML reports that it expected a comma or the closing bracket. The cause is a bracket that was never
closed, or a value that needs quotes because brackets and ": " are special inside brackets.
"""

from __future__ import annotations

import re
from dataclasses import replace

from headrace.core.pipeline.quoting import quote_hint
from headrace.core.pipeline.scene import Scene
from headrace.core.pipeline.syntax_values import closing
from headrace.core.problems import Problem

CLOSES = {"[": "]", "{": "}"}
PIECE = re.compile(
    r"""(?<![^\s\[{,(:])(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*') | (?:^|(?<=\s))\#[^\n]* | [\[\]{}]""",
    re.VERBOSE | re.MULTILINE,
)


def in_brackets(scene: Scene) -> Problem:
    """Return why a list or mapping in brackets could not be read."""
    opened = scene.text[scene.begun]
    if scene.at_end:
        return _unclosed(scene)
    if scene.here == ",":
        return scene.problem('wanted a value before ","', scene.at, scene.at + 1)
    if scene.here in "]}":
        message = f'wanted "{CLOSES[opened]}" for the "{opened}" of {_where(scene)}'
        return scene.problem(f'{message}, got "{scene.here}"', scene.at, scene.at + 1)
    if scene.here in "[{":
        return _opened_inside(scene)
    if scene.here == ":":
        return _colon(scene)
    line, first = scene.line(scene.at), scene.line(scene.begun)
    if line.start > first.start and line.indent <= first.indent:
        return _unclosed(scene)
    return scene.problem(f'wanted "," or "{CLOSES[opened]}" here', scene.at, scene.at + 1)


def innermost(scene: Scene) -> Scene | None:
    """Return the context of the innermost bracket that is open at the error, if there is one."""
    stack: list[int] = []
    for piece in PIECE.finditer(scene.text, 0, scene.at):
        if piece[0] in "[{":
            stack.append(piece.start())
        elif piece[0] in "]}" and stack:
            stack.pop()
    return replace(scene, begun=stack[-1]) if stack else None


def _where(scene: Scene) -> str:
    line = scene.file.place(scene.begun, scene.begun).line
    same = line == scene.file.place(scene.at, scene.at).line
    return "this line" if same else f"line {line}"


def _unclosed(scene: Scene) -> Problem:
    opened = scene.text[scene.begun]
    hint = f'add a "{CLOSES[opened]}" where it ends'
    return scene.problem(f'this "{opened}" is not closed', scene.begun, scene.begun + 1, hint)


def _opened_inside(scene: Scene) -> Problem:
    """Return the problem of a bracket in the middle of a value: `items[0]`, `${env:NAME}`."""
    start = _value_start(scene)
    value = _value(scene, start)
    message = f'a "{scene.here}" in a value without quotes, inside brackets'
    return scene.problem(message, scene.at, scene.at + 1, quote_hint(value))


def _colon(scene: Scene) -> Problem:
    """Return the problem of a second ": ": a comma, quotes or the closing bracket is missing."""
    line, first = scene.line(scene.at), scene.line(scene.begun)
    starts_line = bool(re.fullmatch(r"\s*[\w.-]+", scene.text[line.start : scene.at]))
    if starts_line and (line.indent <= first.indent or not closing(scene.text, scene.begun)):
        return _unclosed(scene)
    start = _value_start(scene)
    before = scene.text[start : scene.at]
    word = re.search(r"\s([\w.-]+)\s*$", before)
    if word:
        at = start + word.start(1)
        hint = "or put quotes around the value that it belongs to"
        return scene.problem(f'wanted "," before "{word[1]}"', at, at + len(word[1]), hint)
    message = 'a ":" followed by a space, in a value without quotes'
    return scene.problem(message, scene.at, scene.at + 1, quote_hint(_value(scene, start)))


def _value_start(scene: Scene) -> int:
    """Return the offset at which the unquoted value that YAML was reading begins."""
    start = scene.at
    while start > scene.begun + 1 and scene.text[start - 1] not in ",[{":
        if re.match(r":\s", scene.text[start - 1 : start + 1]):
            break
        start -= 1
    return start + len(scene.text[start : scene.at]) - len(scene.text[start : scene.at].lstrip())


def _value(scene: Scene, start: int) -> str:
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
