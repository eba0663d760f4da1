r"""Parser of Java patterns, by the grammar of `java.util.regex.Pattern`.

Patterns that Java rejects are rejected here, and so are those that Rust cannot run (look-around,
back-references, possessive repetition) and those that are not clear in Java itself: `\b` changed
its meaning between Java 17 and 19, and each engine ends the repetition of an empty match
differently.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.core.expressions.regex.brackets import bracket
from headrace.core.expressions.regex.characters import (
    EVERY,
    IN_LINE,
    Characters,
    Range,
    either_case,
    single,
)
from headrace.core.expressions.regex.errors import PatternError
from headrace.core.expressions.regex.reader import Reader
from headrace.core.expressions.regex.refusals import GROUPS, refuse
from headrace.core.expressions.regex.tree import (
    Choice,
    End,
    Group,
    LastLine,
    LineBreak,
    Node,
    One,
    Pattern,
    Repeat,
    Sequence,
    Start,
    has,
)


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    dot_all: bool = False
    multiline: bool = False


_FLAGS = {"i": "ignore_case", "s": "dot_all", "m": "multiline"}
_NODES = {"A": Start(), "z": End(), "Z": LastLine(), "R": LineBreak()}


def parse(pattern: str) -> Pattern:
    """Return the tree of a pattern, or raise a PatternError.

    >>> parse("(a|b)+c").groups
    1
    """
    parser = _Parser(pattern)
    tree = parser.choice()
    if parser.reader.peek():
        raise PatternError(
            'the pattern has a ")" without an opening "("', r"write \) for the character"
        )
    return Pattern(tree, parser.groups)


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.reader = Reader(pattern)
        self.groups = 0
        self._names: set[str] = set()
        self._flags = _Flags()

    def choice(self) -> Node:
        options = [self._sequence()]
        while self.reader.accept("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        parts = []
        while self.reader.peek() not in ("", "|", ")"):
            node = self._group() if self.reader.accept("(") else self._atom()
            if node is not None:
                parts.append(self._repeated(node))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _atom(self) -> Node:
        character = self.reader.take()
        match character:
            case "[":
                return One(bracket(self.reader, self._flags.ignore_case))
            case "\\":
                return self._escape()
            case "^" | "$":
                return self._anchor(character)
            case ".":
                return One(EVERY if self._flags.dot_all else IN_LINE)
            case "?" | "*" | "+" | "{":
                hint = rf"write \{character} for the character"
                raise PatternError(f'the pattern has "{character}" with nothing to repeat', hint)
        return self._literal(ord(character))

    def _literal(self, code: int) -> Node:
        return One(either_case(Range(code, code)) if self._flags.ignore_case else single(code))

    def _anchor(self, character: str) -> Node:
        if self._flags.multiline:
            raise PatternError(
                f'the pattern has "{character}" under (?m), which has no exact translation',
                r"match the line end itself: (?:^|\n) or (?:\n|\z)",
            )
        return Start() if character == "^" else LastLine()

    def _escape(self) -> Node:
        found = self.reader.escape(self._flags.ignore_case)
        if isinstance(found, Characters):
            return One(found)
        if isinstance(found, int):
            return self._literal(found)
        if found in _NODES:
            return _NODES[found]
        refuse(f"\\{found}")
        raise PatternError(rf'"\{found}" in the pattern has no meaning', f"write {found}")

    def _group(self) -> Node | None:
        """Read a group, from after its parenthesis; None where it only sets flags."""
        flags = self._flags
        number = self._opened()
        if number is None:
            return None
        self.reader.descend()
        body = self.choice()
        self.reader.depth -= 1
        if not self.reader.accept(")"):
            raise PatternError(
                'the pattern opens "(" and does not close it', r"write \( for the character"
            )
        self._flags = flags
        return Group(number, body) if number else body

    def _opened(self) -> int | None:
        """Read the kind of a group: return its number, 0 if it does not capture, None if it only
        sets flags."""
        reader = self.reader
        if not reader.accept("?"):
            return self._numbered()
        for opening in GROUPS:
            if reader.accept(opening[2:]):
                refuse(opening)
        if reader.accept("<"):
            self._name()
            return self._numbered()
        self._set_flags()
        if reader.accept(")"):
            return None
        if reader.accept(":"):
            return 0
        raise PatternError(f'the pattern has "(?{reader.peek()}", which has no meaning')

    def _numbered(self) -> int:
        self.groups += 1
        return self.groups

    def _name(self) -> None:
        name = self.reader.until(">", "(?<")
        if not (name.isascii() and name.isalnum() and name[0].isalpha()):
            raise PatternError(f'"{name}" is not a valid group name', "use letters and digits")
        if name in self._names:
            raise PatternError(f'two groups of the pattern are named "{name}"')
        self._names.add(name)

    def _set_flags(self) -> None:
        value = True
        while (letter := self.reader.peek()) not in ("", ")", ":"):
            refuse(f"(?{letter})")
            if letter == "-" and value:
                value = False
            elif letter in _FLAGS:
                self._flags = replace(self._flags, **{_FLAGS[letter]: value})
            else:
                return
            self.reader.take()

    def _repeated(self, node: Node) -> Node:
        """Return the node with the repetition after it, if there is one."""
        times = self._times()
        if times is None:
            return node
        least, most = times
        lazy = self.reader.accept("?")
        if self.reader.accept("+"):
            refuse("++")
        if self.reader.peek() == "{":
            raise PatternError("the pattern repeats a repetition", "write (?:...) around the first")
        if can_be_empty(node) and most not in (0, 1):
            raise PatternError(
                "the pattern repeats something that can be empty",
                "the repeated part must match at least one character",
            )
        if has(node, LineBreak):
            hint = r"write [\r\n]+ for one or more line ends"
            raise PatternError(r'the pattern repeats "\R", which Java matches in its own way', hint)
        return Repeat(node, least, most, lazy)

    def _times(self) -> tuple[int, int | None] | None:
        reader = self.reader
        for symbol, times in {"?": (0, 1), "*": (0, None), "+": (1, None)}.items():
            if reader.accept(symbol):
                return times
        if not reader.accept("{"):
            return None
        inside = reader.until("}", "{")
        least, comma, most = inside.partition(",")
        digits = least + most
        if not least or not digits.isdecimal() or not digits.isascii() or len(digits) > 12:
            raise PatternError(
                f'"{{{inside}}}" in the pattern is not a repetition',
                r"write {2}, {2,} or {2,5}, or \{ for the character",
            )
        last = int(most) if most else None if comma else int(least)
        if last is not None and last < int(least):
            raise PatternError(f'"{{{inside}}}" in the pattern ends before it starts')
        return int(least), last


def can_be_empty(node: Node) -> bool:
    """Whether the node can match without consuming a character."""
    match node:
        case One() | LineBreak():
            return False
        case Sequence(parts):
            return all(map(can_be_empty, parts))
        case Choice(options):
            return any(map(can_be_empty, options))
        case Group(body=body):
            return can_be_empty(body)
        case Repeat(body=body, least=least):
            return least == 0 or can_be_empty(body)
    return True
