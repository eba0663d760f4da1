"""Patterns written for Rust's engine, one function for each use; RegexError if impossible.

Both engines prefer the leftmost match and then the first option, so a pattern that both support
finds the same text. They differ after an empty match, which is why a pattern that can be empty is
not used to replace or split.
"""

from __future__ import annotations

from dataclasses import field

from headrace.core.expressions.regex.analysis import (
    check_last_lines,
    find_repeated_groups,
    starts_at_start,
)
from headrace.core.expressions.regex.characters import CharacterRange, write_set
from headrace.core.expressions.regex.errors import RegexError, ReplacementError
from headrace.core.expressions.regex.parser import can_be_empty, parse_regex
from headrace.core.expressions.regex.tree import (
    Alternation,
    CaptureGroup,
    LastLineEnd,
    LineBreak,
    ParsedRegex,
    RegexNode,
    RegexSequence,
    Repetition,
    SingleCharacter,
    TextEnd,
    TextStart,
    has_node,
    walk,
)
from headrace.core.types.lazy_dataclass import dataclass

_LINE_END = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?"
_NOT_EMPTY_HINT = 'it must match at least one character: use "+" in place of "*"'


def translate_search(pattern: str) -> str:
    """Translate a pattern to test whether there is a match."""
    tree = parse_regex(pattern).tree
    check_last_lines(tree, again=False)
    return _Writer().write(tree)


def translate_extraction(pattern: str, group: int, every: bool) -> tuple[str, int]:
    """Translate a pattern to extract a group (0: the whole) of the first match or of all: return
    the pattern, and the number of the group in it."""
    parsed = parse_regex(pattern)
    _check_group(parsed, group)
    tree = parsed.tree
    if every:
        _check_not_empty(tree)
        _check_no_context(tree, group)
    if has_node(tree, LastLineEnd):
        return _translate_last_line(tree, group)
    return _Writer().write(tree), group


def _check_no_context(tree: RegexNode, group: int) -> None:
    """Refuse context around a group: the group is searched again in the text of each match."""
    if has_node(tree, LastLineEnd) or (group and has_node(tree, TextStart, TextEnd)):
        message = 'the pattern has "^" or "$", and a group of every match is requested'
        raise RegexError(
            message, "there is at most one match: regexp_extract(...) returns the first"
        )


def _translate_last_line(tree: RegexNode, group: int) -> tuple[str, int]:
    """Translate a pattern with `$`: all of it but the line end becomes a group."""
    check_last_lines(tree, again=False)
    if isinstance(tree, RegexSequence) and isinstance(tree.parts[-1], LastLineEnd):
        front = _Writer().write(RegexSequence(tree.parts[:-1]))
        return rf"({front}){_LINE_END}\z", group + 1
    if group == 0:
        message = 'the pattern has "$" in one of several options'
        raise RegexError(message, r"write \z in place of $")
    _check_uncaptured(tree, group)
    return _Writer().write(tree), group


def translate_replacement(pattern: str, by: str) -> tuple[str, str]:
    """Translate a pattern and a replacement, in which `$1` is a group, to replace every match."""
    parsed = parse_regex(pattern)
    tree = parsed.tree
    _check_not_empty(tree)
    check_last_lines(tree, again=True)
    writer = _Writer(keep_line_ends=True)
    text = writer.write(tree)
    if writer.line_ends:
        del writer.groups[0]  # the line end is in group 0
    put_back = "".join(f"${{{number}}}" for number in writer.line_ends)
    by, used = _translate_replacement_text(by, parsed.group_count, writer.groups)
    for group in used:
        _check_not_repeated(tree, group)
        _check_uncaptured(tree, group)
    return text, by + put_back


def translate_separator(pattern: str) -> tuple[str, bool]:
    """Translate a pattern to split by: return the separator, and whether it is plain text; ""
    splits characters."""
    tree = parse_regex(pattern).tree
    plain = _find_plain_text(tree)
    if plain or not pattern:
        return plain or "", True
    if can_be_empty(tree):
        raise _empty_match_error()
    if has_node(tree, LastLineEnd):
        raise RegexError('the pattern has "$", which cannot separate parts', r"write \z")
    return _Writer().write(tree), False


def _find_plain_text(tree: RegexNode) -> str | None:
    """Return the only text that the tree matches, if there is only one."""
    parts = tree.parts if isinstance(tree, RegexSequence) else (tree,)
    text = ""
    for part in parts:
        match part:
            case SingleCharacter(CharacterRange(low, high)) if low == high:
                text += chr(low)
            case _:
                return None
    return text


def _check_group(pattern: ParsedRegex, group: int) -> None:
    if not 0 <= group <= pattern.group_count:
        count = {0: "no groups", 1: "1 group"}.get(
            pattern.group_count, f"{pattern.group_count} groups"
        )
        hint = "parentheses make groups, numbered from 1; 0 is the whole match"
        raise RegexError(f"the pattern has {count}, and group {group} is requested", hint)
    _check_not_repeated(pattern.tree, group)


def _check_not_repeated(tree: RegexNode, group: int) -> None:
    if group in find_repeated_groups(tree):
        hint = "put the parentheses around the repetition: ((?:...)+)"
        raise RegexError(f"the pattern repeats group {group}", hint)


def _check_not_empty(tree: RegexNode) -> None:
    if can_be_empty(tree) and not starts_at_start(tree):
        raise _empty_match_error()


def _empty_match_error() -> RegexError:
    return RegexError("the pattern matches the empty text as well", _NOT_EMPTY_HINT)


def _check_uncaptured(tree: RegexNode, group: int) -> None:
    """Refuse `$` in a group that is extracted: the line end would be in its text."""
    for node in walk(tree):
        if isinstance(node, CaptureGroup) and node.number == group and has_node(node, LastLineEnd):
            message = f'the pattern has "$" inside group {group}'
            raise RegexError(message, r"write $ after the group, or \z in place of $")


@dataclass(slots=True)
class _Writer:
    """Writes one tree; `groups` and `line_ends` are the numbers of its groups in the result."""

    keep_line_ends: bool = False
    groups: dict[int, int] = field(default_factory=lambda: {0: 0})
    line_ends: list[int] = field(default_factory=list)

    def write(self, node: RegexNode) -> str:
        match node:
            case SingleCharacter(characters):
                return write_set(characters)
            case RegexSequence(parts):
                return "".join(map(self._write_part, parts))
            case Alternation(options):
                return "|".join(map(self.write, options))
            case CaptureGroup(number, body):
                self.groups[number] = len(self.groups) + len(self.line_ends)
                return f"({self.write(body)})"
            case Repetition():
                return self._write_part(node.body, repeated=True) + _write_times(node)
            case TextStart():
                return r"\A"
            case TextEnd():
                return r"\z"
            case LineBreak():
                return r"(?:\r\n|[\n-\r\x{85}\x{2028}\x{2029}])"
            case LastLineEnd():
                return self._write_line_end()
        raise AssertionError(node)

    def _write_part(self, node: RegexNode, repeated: bool = False) -> str:
        """Write a part of a sequence, or the body of a repetition."""
        loose = (
            (Alternation, RegexSequence, Repetition, LastLineEnd) if repeated else (Alternation,)
        )
        return f"(?:{self.write(node)})" if isinstance(node, loose) else self.write(node)

    def _write_line_end(self) -> str:
        if not self.keep_line_ends:
            return rf"{_LINE_END}\z"
        self.line_ends.append(len(self.groups) + len(self.line_ends))
        return rf"({_LINE_END})\z"


def _write_times(node: Repetition) -> str:
    match node.minimum, node.maximum:
        case 0, 1:
            times = "?"
        case 0, None:
            times = "*"
        case 1, None:
            times = "+"
        case minimum, maximum:
            times = f"{{{minimum},{'' if maximum is None else maximum}}}"
    return times + "?" if node.is_lazy else times


def _translate_replacement_text(
    text: str, count: int, groups: dict[int, int]
) -> tuple[str, set[int]]:
    r"""Translate Java's replacement for Rust: `$1` is a group, `\` makes the next character
    literal."""
    parts: list[str] = []
    used: set[int] = set()
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character == "\\":
            if at == len(text):
                raise ReplacementError("the replacement ends with a single backslash", r"write \\")
            parts.append(text[at].replace("$", "$$"))
            at += 1
        elif character == "$":
            number, at = _parse_reference(text, at, count)
            if number not in groups:
                message = 'the replacement has $0, and the pattern has "$"'
                raise ReplacementError(message, "put everything before $ into a group and write $1")
            used.add(number)
            parts.append(f"${{{groups[number]}}}")
        else:
            parts.append(character)
    return "".join(parts), used


def _parse_reference(text: str, at: int, count: int) -> tuple[int, int]:
    """Return the group that `$` refers to, with as many digits as there are groups for, and the
    next position."""
    digit = text[at : at + 1]
    if not (digit.isdecimal() and digit.isascii()):
        named = digit == "{"
        why = "names a group; wanted its number" if named else 'has "$" without a group after it'
        raise ReplacementError(
            f"the replacement {why}", r"write $1 for group 1, \$ for the character"
        )
    number = int(digit)
    if number > count:
        message = f"the replacement has ${number}, and the pattern has {count} groups"
        raise ReplacementError(message, r"write \$ for the character")
    at += 1
    while (digit := text[at : at + 1]).isdecimal() and digit.isascii():
        longer = number * 10 + int(digit)
        if longer > count:
            break
        number, at = longer, at + 1
    return number, at
