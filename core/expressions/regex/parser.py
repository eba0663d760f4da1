r"""Parser of Java patterns, by the grammar of `java.util.regex.Pattern`.

Patterns that Java rejects are rejected here, and so are those that Rust cannot run (look-around,
back-references, possessive repetition) and those that are not clear in Java itself: `\b` changed
its meaning between Java 17 and 19, and each engine ends the repetition of an empty match
differently.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.core.expressions.regex.brackets import read_bracket
from headrace.core.expressions.regex.characters import (
    ANY_CHARACTER,
    NOT_LINE_END,
    CharacterRange,
    CharacterSet,
    add_other_case,
    single_character,
)
from headrace.core.expressions.regex.errors import REFUSED_GROUPS, RegexError, refuse_construct
from headrace.core.expressions.regex.reader import PatternReader
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
)
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    dot_all: bool = False
    multiline: bool = False


_FLAGS = {"i": "ignore_case", "s": "dot_all", "m": "multiline"}
_NODES = {"A": TextStart(), "z": TextEnd(), "Z": LastLineEnd(), "R": LineBreak()}


def parse_regex(pattern: str) -> ParsedRegex:
    """Return the tree of a pattern, or raise a RegexError.

    >>> parse_regex("(a|b)+c").group_count
    1
    """
    parser = _Parser(pattern)
    tree = parser.parse_choice()
    if parser.reader.peek():
        raise RegexError(
            'the pattern has a ")" without an opening "("', r"write \) for the character"
        )
    return ParsedRegex(tree, parser.groups)


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.reader = PatternReader(pattern)
        self.groups = 0
        self._names: set[str] = set()
        self._flags = _Flags()

    def parse_choice(self) -> RegexNode:
        options = [self._parse_sequence()]
        while self.reader.accept("|"):
            options.append(self._parse_sequence())
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def _parse_sequence(self) -> RegexNode:
        parts = []
        while self.reader.peek() not in ("", "|", ")"):
            node = self._parse_group() if self.reader.accept("(") else self._parse_atom()
            if node is not None:
                parts.append(self._parse_repetition(node))
        return parts[0] if len(parts) == 1 else RegexSequence(tuple(parts))

    def _parse_atom(self) -> RegexNode:
        character = self.reader.take()
        match character:
            case "[":
                return SingleCharacter(read_bracket(self.reader, self._flags.ignore_case))
            case "\\":
                return self._parse_escape()
            case "^" | "$":
                return self._build_anchor(character)
            case ".":
                return SingleCharacter(ANY_CHARACTER if self._flags.dot_all else NOT_LINE_END)
            case "?" | "*" | "+" | "{":
                hint = rf"write \{character} for the character"
                raise RegexError(f'the pattern has "{character}" with nothing to repeat', hint)
        return self._build_literal(ord(character))

    def _build_literal(self, code: int) -> RegexNode:
        return SingleCharacter(
            add_other_case(CharacterRange(code, code))
            if self._flags.ignore_case
            else single_character(code)
        )

    def _build_anchor(self, character: str) -> RegexNode:
        if self._flags.multiline:
            raise RegexError(
                f'the pattern has "{character}" under (?m), which has no exact translation',
                r"match the line end itself: (?:^|\n) or (?:\n|\z)",
            )
        return TextStart() if character == "^" else LastLineEnd()

    def _parse_escape(self) -> RegexNode:
        escape = self.reader.read_escape(self._flags.ignore_case)
        if isinstance(escape, CharacterSet):
            return SingleCharacter(escape)
        if isinstance(escape, int):
            return self._build_literal(escape)
        if escape in _NODES:
            return _NODES[escape]
        refuse_construct(f"\\{escape}")
        raise RegexError(rf'"\{escape}" in the pattern has no meaning', f"write {escape}")

    def _parse_group(self) -> RegexNode | None:
        """Read a group, from after its parenthesis; None where it only sets flags."""
        flags = self._flags
        number = self._parse_group_kind()
        if number is None:
            return None
        self.reader.enter_group()
        body = self.parse_choice()
        self.reader.depth -= 1
        if not self.reader.accept(")"):
            raise RegexError(
                'the pattern opens "(" and does not close it', r"write \( for the character"
            )
        self._flags = flags
        return CaptureGroup(number, body) if number else body

    def _parse_group_kind(self) -> int | None:
        """Read the kind of a group: return its number, 0 if it does not capture, None if it only
        sets flags."""
        reader = self.reader
        if not reader.accept("?"):
            return self._next_group_number()
        for opening in REFUSED_GROUPS:
            if reader.accept(opening[2:]):
                refuse_construct(opening)
        if reader.accept("<"):
            self._parse_group_name()
            return self._next_group_number()
        self._set_flags()
        if reader.accept(")"):
            return None
        if reader.accept(":"):
            return 0
        raise RegexError(f'the pattern has "(?{reader.peek()}", which has no meaning')

    def _next_group_number(self) -> int:
        self.groups += 1
        return self.groups

    def _parse_group_name(self) -> None:
        name = self.reader.read_until(">", "(?<")
        if not (name.isascii() and name.isalnum() and name[0].isalpha()):
            raise RegexError(f'"{name}" is not a valid group name', "use letters and digits")
        if name in self._names:
            raise RegexError(f'two groups of the pattern are named "{name}"')
        self._names.add(name)

    def _set_flags(self) -> None:
        value = True
        while (letter := self.reader.peek()) not in ("", ")", ":"):
            refuse_construct(f"(?{letter})")
            if letter == "-" and value:
                value = False
            elif letter in _FLAGS:
                self._flags = replace(self._flags, **{_FLAGS[letter]: value})
            else:
                return
            self.reader.take()

    def _parse_repetition(self, node: RegexNode) -> RegexNode:
        """Return the node with the repetition after it, if there is one."""
        times = self._parse_times()
        if times is None:
            return node
        minimum, maximum = times
        lazy = self.reader.accept("?")
        if self.reader.accept("+"):
            refuse_construct("++")
        if self.reader.peek() == "{":
            raise RegexError("the pattern repeats a repetition", "write (?:...) around the first")
        if can_be_empty(node) and maximum not in (0, 1):
            raise RegexError(
                "the pattern repeats something that can be empty",
                "the repeated part must match at least one character",
            )
        if has_node(node, LineBreak):
            hint = r"write [\r\n]+ for one or more line ends"
            raise RegexError(r'the pattern repeats "\R", which Java matches in its own way', hint)
        return Repetition(node, minimum, maximum, lazy)

    def _parse_times(self) -> tuple[int, int | None] | None:
        reader = self.reader
        for symbol, times in {"?": (0, 1), "*": (0, None), "+": (1, None)}.items():
            if reader.accept(symbol):
                return times
        if not reader.accept("{"):
            return None
        inside = reader.read_until("}", "{")
        minimum, comma, maximum = inside.partition(",")
        digits = minimum + maximum
        if not minimum or not digits.isdecimal() or not digits.isascii() or len(digits) > 12:
            raise RegexError(
                f'"{{{inside}}}" in the pattern is not a repetition',
                r"write {2}, {2,} or {2,5}, or \{ for the character",
            )
        last = int(maximum) if maximum else None if comma else int(minimum)
        if last is not None and last < int(minimum):
            raise RegexError(f'"{{{inside}}}" in the pattern ends before it starts')
        return int(minimum), last


def can_be_empty(node: RegexNode) -> bool:
    """Whether the node can match without consuming a character."""
    match node:
        case SingleCharacter() | LineBreak():
            return False
        case RegexSequence(parts):
            return all(map(can_be_empty, parts))
        case Alternation(options):
            return any(map(can_be_empty, options))
        case CaptureGroup(body=body):
            return can_be_empty(body)
        case Repetition(body=body, minimum=least):
            return least == 0 or can_be_empty(body)
    return True
