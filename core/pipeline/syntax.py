"""Explanations of YAML's syntax errors for users who write a pipeline.

YAML reports where it stopped, which is often after the actual error. The lines around it are
therefore searched for common errors, with one rule for each; the first rule that matches reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import yaml

from headrace.core.pipeline.file import File
from headrace.core.pipeline.quoting import quote_hint
from headrace.core.pipeline.scene import Line, Scene
from headrace.core.pipeline.syntax_flow import in_brackets, innermost
from headrace.core.pipeline.syntax_values import in_line
from headrace.core.problems import Problem


def explained(file: File, error: yaml.YAMLError) -> Problem:
    """Return the problem that explains an error of PyYAML."""
    mark = getattr(error, "problem_mark", None)
    begun = getattr(error, "context_mark", None) or mark
    words = f"{getattr(error, 'context', '')}: {getattr(error, 'problem', '')}"
    at = mark.index if mark else 0
    scene = Scene(file, at, begun.index if begun else at, words)
    for rule in RULES:
        found = rule(scene)
        if found:
            return found
    return scene.problem("the YAML syntax is invalid here", scene.at, scene.at + 1, FALLBACK)


FALLBACK = "look for a missing quote, bracket or colon here or just above"


def _tab(scene: Scene) -> Problem | None:
    line = scene.line(scene.at)
    found = re.match(r"[ ]*(\t[ \t]*)", line.text)
    if not found:
        return None
    start = line.start + found.start(1)
    hint = "indent with spaces, two a level"
    return scene.problem("a tab in the indentation", start, line.start + found.end(), hint)


def _odd_space(scene: Scene) -> Problem | None:
    for line in (scene.line(scene.at), *scene.above(scene.line(scene.at))):
        found = re.match(r"[ ]*([\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000])", line.text)
        if found:
            start = line.start + found.start(1)
            message = f"an unusual space (U+{ord(found[1]):04X}) in the indentation"
            return scene.problem(message, start, start + 1, "type a plain space instead")
    return None


def _escape(scene: Scene) -> Problem | None:
    if not re.search("escape char|escape code|hexdecimal|hexadecimal", scene.words):
        return None
    start = scene.text.rfind("\\", 0, scene.at + 1)
    shown = scene.text[start : start + 2]
    hint = "use single quotes, or write \\\\ for a backslash"
    return scene.problem(f'"{shown}" is not an escape in double quotes', start, start + 2, hint)


def _directive(scene: Scene) -> Problem | None:
    line = scene.line(scene.at)
    if not line.text.startswith("%"):
        return None
    return scene.problem('a line cannot begin with "%"', line.start, line.start + 1, "remove it")


def _behind_quote(scene: Scene) -> Problem | None:
    """Find a quoted value inside brackets that is not followed by a comma."""
    line = scene.line(scene.at)
    before = scene.text[line.start : scene.at].rstrip()
    if "next token" not in scene.words and "expected ','" not in scene.words:
        return None
    if not before.endswith(("'", '"')) or scene.here in "]},:":
        return None
    message = "a value that begins with a quote ends at the next one, but more text follows"
    hint = "put all of the value in quotes"
    return scene.problem(message, scene.at, scene.at + 1, hint)


def _brackets(scene: Scene) -> Problem | None:
    if "a flow" not in scene.words:
        return None
    if scene.text[scene.begun : scene.begun + 1] in ("[", "{") and scene.begun < scene.at:
        return in_brackets(scene)
    found = innermost(scene)
    return in_brackets(found) if found else None


def _open_quote(scene: Scene) -> Problem | None:
    if "quoted scalar" not in scene.words:
        return None
    quote = scene.text[scene.begun]
    message = f"this quote ({quote}) is not closed"
    return scene.problem(message, scene.begun, scene.begun + 1, f"add a {quote} where it ends")


def _value(scene: Scene) -> Problem | None:
    """Find a value that YAML reads as something else, on this line or where the node began."""
    here, begun = scene.line(scene.at), scene.line(scene.begun)
    above = next(scene.above(here), here)
    for line in dict.fromkeys((here, begun, above)):
        found = in_line(scene, line)
        if found:
            return found
    return _item_start(scene, here)


def _item_start(scene: Scene, line: Line) -> Problem | None:
    """Find a character that cannot begin a value, in a list or at the start of a line."""
    if "cannot start any token" not in scene.words and "alphabetic" not in scene.words:
        return None
    at = scene.at if scene.here in ("@", "`", "%", "|", ">") else scene.begun
    sign = scene.text[at : at + 1]
    name = "a back quote" if sign == "`" else f'"{sign}"'
    rest = re.split(r"[,\]}\r\n]", scene.text[at:], maxsplit=1)[0]
    return scene.problem(f"in YAML a value cannot begin with {name}", at, at + 1, quote_hint(rest))


def _no_space(scene: Scene) -> Problem | None:
    """Find `key:value`, which YAML reads as one word."""
    for line in _suspects(scene):
        found = re.fullmatch(r"((?:- +)*)([A-Za-z_][\w.-]*):([^\s/].*)", line.body)
        if found and not re.search(r":(\s|$)", line.body):
            at = line.start + line.indent + found.end(2)
            hint = f"write {found[2]}: {found[3]}"
            return scene.problem('wanted a space after ":"', at, at + 1, hint)
        found = re.match(r"-[^\s-]", line.body)
        if found:
            at = line.start + line.indent
            hint = f"write - {line.body[1:]}"
            return scene.problem('wanted a space after "-"', at, at + 1, hint)
    return None


def _no_colon(scene: Scene) -> Problem | None:
    """Find a line that is neither `key: value` nor an item of a list."""
    for line in _suspects(scene):
        if line.entry or re.search(r":(\s|$)", line.body) or line.body.startswith("- "):
            continue
        at = line.start + line.indent
        pair = re.fullmatch(r"([A-Za-z_][\w-]*)(?:\s*=\s*|\s+)(.+)", line.body)
        hint = f"write {pair[1]}: {pair[2]}" if pair else f'put a ":" after "{line.body}"'
        shown = line.body if len(line.body) <= 60 else f"{line.body[:57]}..."
        message = f'wanted "key: value", got "{shown}"'
        return scene.problem(message, at, at + len(line.body), hint)
    return None


def _suspects(scene: Scene) -> list[Line]:
    """Return the lines that may have caused the error: its own, the node's, or those above."""
    here, begun = scene.line(scene.at), scene.line(scene.begun)
    if "simple key" in scene.words:
        return [begun]
    if "not allowed" in scene.words:
        above = []
        for line in scene.above(here):
            above.append(line)
            if line.entry or len(above) > 20:
                break
        return [*reversed(above)]
    return [here]


def _list_and_mapping(scene: Scene) -> Problem | None:
    """Find items of a list and keys of a mapping at the same level."""
    line = scene.line(scene.at)
    if "block collection" in scene.words and not line.body.startswith("- "):
        siblings = "the lines above at this level are items of a list"
        if line.indent == scene.line(scene.begun).indent:
            hint = 'begin it with "- " too, or write all of them as "key: value"'
            return scene.problem(siblings, scene.at, scene.at + 1, hint)
    if "block mapping" in scene.words and line.body.startswith("-"):
        message = 'wanted "key: value" as on the lines above at this level, got an item of a list'
        if line.indent == scene.line(scene.begun).indent:
            return scene.problem(message, scene.at, scene.at + 1)
    return None


def _indentation(scene: Scene) -> Problem | None:
    """Find a line whose indentation matches no line above."""
    line = scene.line(scene.at)
    if scene.text[line.start : scene.at].strip() and ": mapping values" not in scene.words:
        return None
    above = next(scene.above(line), None)
    if above is None:
        return None
    if "not allowed" in scene.words and above.entry and line.indent > above.indent:
        message = "indented deeper than the line above, which has a value already"
        hint = f'begin it under "{above.body.split(":")[0]}"'
        return scene.problem(message, line.start + line.indent, scene.at, hint)
    columns = _columns(scene, line)
    if line.indent in columns or not columns:
        return None
    near = min(columns, key=lambda column: abs(column - line.indent))
    hint = f'indent it by {near}, as "{columns[near]}"'
    message = f"indented by {line.indent} spaces, unlike any line above"
    return scene.problem(message, line.start + line.indent, scene.at + 1, hint)


def _columns(scene: Scene, line: Line) -> dict[int, str]:
    """Return the columns in which a line may begin here, each with a line that begins there."""
    columns: dict[int, str] = {}
    for above in scene.above(line):
        if above.indent < min(columns, default=above.indent + 1):
            columns[above.indent] = above.body.split(": ")[0].rstrip(":") + ":"
        if above.indent == 0:
            break
    return columns


def _stray(scene: Scene) -> Problem | None:
    if scene.here not in ("]", "}"):
        return None
    message = f'this "{scene.here}" has no opening bracket'
    return scene.problem(message, scene.at, scene.at + 1)


def _ended(scene: Scene) -> Problem | None:
    if "document start" not in scene.words:
        return None
    return scene.problem(
        "a pipeline is one mapping of keys to values, but the text above has ended it",
        scene.at,
        scene.at + 1,
        "begin each line with a key, as in name: demo",
    )


RULES: tuple[Callable[[Scene], Problem | None], ...] = (
    _tab,
    _odd_space,
    _escape,
    _directive,
    _behind_quote,
    _brackets,
    _open_quote,
    _value,
    _stray,
    _no_space,
    _no_colon,
    _list_and_mapping,
    _indentation,
    _ended,
)
