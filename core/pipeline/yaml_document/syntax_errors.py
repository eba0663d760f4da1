"""Explanations of YAML's syntax errors for users who write a pipeline.

YAML reports where it stopped, which is often after the actual error. The lines around it are
therefore searched for common errors, with one rule for each; the first rule that matches reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import yaml

from headrace.core.errors.problems import Problem
from headrace.core.pipeline.yaml_document.error_context import (
    ContextLine,
    YamlErrorContext,
    suggest_quotes,
)
from headrace.core.pipeline.yaml_document.flow_errors import (
    explain_bracket_error,
    find_innermost_bracket,
)
from headrace.core.pipeline.yaml_document.source_file import SourceText
from headrace.core.pipeline.yaml_document.value_errors import find_line_error


def explain_error(file: SourceText, error: yaml.YAMLError) -> Problem:
    """Return the problem that explains an error of PyYAML."""
    mark = getattr(error, "problem_mark", None)
    begun = getattr(error, "context_mark", None) or mark
    words = f"{getattr(error, 'context', '')}: {getattr(error, 'problem', '')}"
    at = mark.index if mark else 0
    context = YamlErrorContext(file, at, begun.index if begun else at, words)
    for rule in ERROR_RULES:
        found = rule(context)
        if found:
            return found
    return context.make_problem(
        "the YAML syntax is invalid here", context.offset, context.offset + 1, FALLBACK_HINT
    )


COMMENTED_ENTRY = re.compile(r"""(?:- +)*([\w.-]+):\s+[^\s'"|>{\[].*?\s(#.*)""")
"""A key, a value without quotes, and a comment."""
FALLBACK_HINT = "look for a missing quote, bracket or colon here or just above"


def _find_tab(context: YamlErrorContext) -> Problem | None:
    line = context.get_line(context.offset)
    found = re.match(r"[ ]*(\t[ \t]*)", line.text)
    if not found:
        return None
    start = line.start + found.start(1)
    hint = "indent with spaces, two a level"
    return context.make_problem("a tab in the indentation", start, line.start + found.end(), hint)


def _find_unusual_space(context: YamlErrorContext) -> Problem | None:
    for line in (
        context.get_line(context.offset),
        *context.lines_above(context.get_line(context.offset)),
    ):
        found = re.match(r"[ ]*([\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000])", line.text)
        if found:
            start = line.start + found.start(1)
            message = f"an unusual space (U+{ord(found[1]):04X}) in the indentation"
            return context.make_problem(message, start, start + 1, "type a plain space instead")
    return None


def _find_bad_escape(context: YamlErrorContext) -> Problem | None:
    if not re.search("escape char|escape code|hexdecimal|hexadecimal", context.yaml_message):
        return None
    start = context.text.rfind("\\", 0, context.offset + 1)
    shown = context.text[start : start + 2]
    hint = "use single quotes, or write \\\\ for a backslash"
    return context.make_problem(
        f'"{shown}" is not an escape in double quotes', start, start + 2, hint
    )


def _find_directive(context: YamlErrorContext) -> Problem | None:
    line = context.get_line(context.offset)
    if not line.text.startswith("%"):
        return None
    return context.make_problem(
        'a line cannot begin with "%"', line.start, line.start + 1, "remove it"
    )


def _find_text_after_quote(context: YamlErrorContext) -> Problem | None:
    """Find a quoted value inside brackets that is not followed by a comma."""
    line = context.get_line(context.offset)
    before = context.text[line.start : context.offset].rstrip()
    if "next token" not in context.yaml_message and "expected ','" not in context.yaml_message:
        return None
    if not before.endswith(("'", '"')) or context.character in "]},:":
        return None
    message = "a value that begins with a quote ends at the next one, but more text follows"
    hint = "put all of the value in quotes"
    return context.make_problem(message, context.offset, context.offset + 1, hint)


def _find_bracket_error(context: YamlErrorContext) -> Problem | None:
    if "a flow" not in context.yaml_message:
        return None
    if (
        context.text[context.node_start : context.node_start + 1] in ("[", "{")
        and context.node_start < context.offset
    ):
        return explain_bracket_error(context)
    found = find_innermost_bracket(context)
    return explain_bracket_error(found) if found else None


def _find_open_quote(context: YamlErrorContext) -> Problem | None:
    if "quoted scalar" not in context.yaml_message:
        return None
    quote = context.text[context.node_start]
    message = f"this quote ({quote}) is not closed"
    return context.make_problem(
        message, context.node_start, context.node_start + 1, f"add a {quote} where it ends"
    )


def _find_value_error(context: YamlErrorContext) -> Problem | None:
    """Find a value that YAML reads as something else, on this line or where the node began."""
    here, begun = context.get_line(context.offset), context.get_line(context.node_start)
    above = next(context.lines_above(here), here)
    for line in dict.fromkeys((here, begun, above)):
        found = find_line_error(context, line)
        if found:
            return found
    return _find_bad_item_start(context, here)


def _find_bad_item_start(context: YamlErrorContext, line: ContextLine) -> Problem | None:
    """Find a character that cannot begin a value, in a list or at the start of a line."""
    if (
        "cannot start any token" not in context.yaml_message
        and "alphabetic" not in context.yaml_message
    ):
        return None
    at = context.offset if context.character in ("@", "`", "%", "|", ">") else context.node_start
    sign = context.text[at : at + 1]
    name = "a back quote" if sign == "`" else f'"{sign}"'
    rest = re.split(r"[,\]}\r\n]", context.text[at:], maxsplit=1)[0]
    return context.make_problem(
        f"in YAML a value cannot begin with {name}", at, at + 1, suggest_quotes(rest)
    )


def _find_comment_in_value(context: YamlErrorContext) -> Problem | None:
    """Find a line that continues a value without quotes after a comment, which has ended it."""
    line = context.get_line(context.offset)
    above = next(context.lines_above(line), None)
    if above is None or line.entry or line.indent <= above.indent:
        return None
    found = COMMENTED_ENTRY.fullmatch(above.text, above.indent)
    if found is None:
        return None
    at = above.start + found.start(2)
    message = "a comment ends the value, but more of it follows"
    hint = f'put it on a line of its own, above "{found[1]}"'
    return context.make_problem(message, at, at + 1, hint)


def _find_missing_space(context: YamlErrorContext) -> Problem | None:
    """Find `key:value`, which YAML reads as one word."""
    for line in _list_suspect_lines(context):
        found = re.fullmatch(r"((?:- +)*)([A-Za-z_][\w.-]*):([^\s/].*)", line.body)
        if found and not re.search(r":(\s|$)", line.body):
            at = line.start + line.indent + found.end(2)
            hint = f"write {found[2]}: {found[3]}"
            return context.make_problem('wanted a space after ":"', at, at + 1, hint)
        found = re.match(r"-[^\s-]", line.body)
        if found:
            at = line.start + line.indent
            hint = f"write - {line.body[1:]}"
            end = at + len(line.body)
            return context.make_problem('wanted a space after "-"', at, end, hint)
    return None


def _find_missing_colon(context: YamlErrorContext) -> Problem | None:
    """Find a line that is neither `key: value` nor an item of a list."""
    for line in _list_suspect_lines(context):
        if line.entry or re.search(r":(\s|$)", line.body) or line.body.startswith("- "):
            continue
        at = line.start + line.indent
        pair = re.fullmatch(r"([A-Za-z_][\w-]*)(?:\s*=\s*|\s+)(.+)", line.body)
        hint = f"write {pair[1]}: {pair[2]}" if pair else f'put a ":" after "{line.body}"'
        shown = line.body if len(line.body) <= 60 else f"{line.body[:57]}..."
        message = f'wanted "key: value", got "{shown}"'
        return context.make_problem(message, at, at + len(line.body), hint)
    return None


def _list_suspect_lines(context: YamlErrorContext) -> list[ContextLine]:
    """Return the lines that may have caused the error: its own, the node's, or those above."""
    here, begun = context.get_line(context.offset), context.get_line(context.node_start)
    if "simple key" in context.yaml_message:
        return [begun]
    if "not allowed" in context.yaml_message:
        above = []
        for line in context.lines_above(here):
            above.append(line)
            if line.entry or len(above) > 20:
                break
        return [*reversed(above)]
    return [here]


def _find_mixed_collections(context: YamlErrorContext) -> Problem | None:
    """Find items of a list and keys of a mapping at the same level."""
    line = context.get_line(context.offset)
    if "block collection" in context.yaml_message and not line.body.startswith("- "):
        siblings = "the lines above at this level are items of a list"
        if line.indent == context.get_line(context.node_start).indent:
            hint = 'begin it with "- " too, or write all of them as "key: value"'
            return context.make_problem(siblings, context.offset, context.offset + 1, hint)
    if "block mapping" in context.yaml_message and line.body.startswith("-"):
        message = 'wanted "key: value" as on the lines above at this level, got an item of a list'
        if line.indent == context.get_line(context.node_start).indent:
            return context.make_problem(message, context.offset, context.offset + 1)
    return None


def _find_bad_indentation(context: YamlErrorContext) -> Problem | None:
    """Find a line whose indentation matches no line above."""
    line = context.get_line(context.offset)
    if (
        context.text[line.start : context.offset].strip()
        and ": mapping values" not in context.yaml_message
    ):
        return None
    above = next(context.lines_above(line), None)
    if above is None:
        return None
    if "not allowed" in context.yaml_message and above.entry and line.indent > above.indent:
        message = "indented deeper than the line above, which has a value already"
        hint = f'begin it under "{above.body.split(":")[0]}"'
        return context.make_problem(message, line.start + line.indent, context.offset, hint)
    columns = _list_columns(context, line)
    if line.indent in columns or not columns:
        return None
    near = min(columns, key=lambda column: abs(column - line.indent))
    hint = f'indent it by {near}, as "{columns[near]}"'
    message = f"indented by {line.indent} spaces, unlike any line above"
    return context.make_problem(message, line.start + line.indent, context.offset + 1, hint)


def _list_columns(context: YamlErrorContext, line: ContextLine) -> dict[int, str]:
    """Return the columns in which a line may begin here, each with a line that begins there."""
    columns: dict[int, str] = {}
    for above in context.lines_above(line):
        if above.indent < min(columns, default=above.indent + 1):
            columns[above.indent] = above.body.split(": ")[0].rstrip(":") + ":"
        if above.indent == 0:
            break
    return columns


def _find_stray_bracket(context: YamlErrorContext) -> Problem | None:
    if context.character not in ("]", "}"):
        return None
    message = f'this "{context.character}" has no opening bracket'
    return context.make_problem(message, context.offset, context.offset + 1)


def _find_ended_mapping(context: YamlErrorContext) -> Problem | None:
    if "document start" not in context.yaml_message:
        return None
    return context.make_problem(
        "a pipeline is one mapping of keys to values, but the text above has ended it",
        context.offset,
        context.offset + 1,
        "begin each line with a key, as in name: demo",
    )


ERROR_RULES: tuple[Callable[[YamlErrorContext], Problem | None], ...] = (
    _find_tab,
    _find_unusual_space,
    _find_bad_escape,
    _find_directive,
    _find_text_after_quote,
    _find_bracket_error,
    _find_open_quote,
    _find_value_error,
    _find_stray_bracket,
    _find_comment_in_value,
    _find_missing_space,
    _find_missing_colon,
    _find_mixed_collections,
    _find_bad_indentation,
    _find_ended_mapping,
)
