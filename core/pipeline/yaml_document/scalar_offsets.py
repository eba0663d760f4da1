"""The offsets in the file of each character of a scalar's value.

PyYAML returns a scalar's value and its start and end, but not their mapping: lines are folded,
escapes replaced, indentation dropped. The scalar is therefore scanned again by the same rules,
with offsets. The scan counts only if it yields the same value; otherwise there are no offsets, and
problems point at the scalar as a whole. It runs only when a problem is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, overload

from headrace.core.pipeline.yaml_document.nodes import YamlScalar
from headrace.core.pipeline.yaml_document.source_file import LINE_END
from headrace.core.types.lazy_pattern import compile_pattern


class ScannedCharacter(NamedTuple):
    """A character of the value, from `[start, end)` of the file; "" is an escaped line break."""

    value: str
    start: int
    end: int
    is_escaped: bool = False

    @property
    def is_break(self) -> bool:
        """Whether a line of the file ends here."""
        return not self.is_escaped and self.value in ("\n", "\r")

    @property
    def is_blank(self) -> bool:
        """Whether folding may drop it."""
        return not self.is_escaped and self.value in (" ", "\t")


NODE_PROPERTIES = compile_pattern(r"(?:[&!]\S*(?:\s|#[^\n\r]*(?=[\n\r]))*)*")
ESCAPES = {
    **{"0": "\0", "a": "\a", "b": "\b", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b"},
    **{"t": "\t", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"},
}
HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
MAX_SCANNED = 50_000


class ContiguousOffsets(Sequence[tuple[int, int]]):
    """The offsets of a value that is unchanged in the file, computed on access."""

    def __init__(self, start: int, length: int) -> None:
        self.start = start
        self.length = length

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> tuple[int, int]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[int, int]]: ...

    def __getitem__(self, index: int | slice) -> tuple[int, int] | Sequence[tuple[int, int]]:
        at = range(self.start, self.start + self.length)[index]
        return (at, at + 1) if isinstance(at, int) else [(one, one + 1) for one in at]


@lru_cache(maxsize=4)
def compute_offsets(scalar: YamlScalar) -> Sequence[tuple[int, int]]:
    """Return one pair of offsets per character of the value; none if they are unknown."""
    if scalar.style == "=":
        return ContiguousOffsets(scalar.start, scalar.end - scalar.start)
    text, start, end = scalar.file.text, find_content_start(scalar), scalar.end
    quote = int(scalar.style in ("'", '"'))
    if scalar.style not in ("|", ">") and text[start + quote : end - quote] == scalar.value:
        return ContiguousOffsets(start + quote, len(scalar.value))
    if end - start > MAX_SCANNED:
        return ()
    match scalar.style:
        case "'":
            return _accept_if_equal(
                scalar, fold_lines(_scan_single_quoted(text, start + 1, end - 1))
            )
        case '"':
            return _accept_if_equal(
                scalar, fold_lines(_scan_double_quoted(text, start + 1, end - 1))
            )
        case "|" | ">":
            return _scan_block(scalar, start)
        case _:
            return _accept_if_equal(scalar, fold_lines(_scan_plain(text, start, end)))


def find_content_start(scalar: YamlScalar) -> int:
    """Return the offset at which the text itself begins, after `&anchor` and `!tag`."""
    found = NODE_PROPERTIES.match(scalar.file.text, scalar.start, scalar.end)
    return found.end() if found else scalar.start


def _accept_if_equal(
    scalar: YamlScalar, chars: list[ScannedCharacter]
) -> Sequence[tuple[int, int]]:
    if "".join(char.value for char in chars) != scalar.value:
        return ()
    return [(char.start, char.end) for char in chars]


def _scan_plain(text: str, start: int, end: int) -> Iterator[ScannedCharacter]:
    at = start
    while at < end:
        width = 2 if text.startswith("\r\n", at) else 1
        yield ScannedCharacter("\n" if width == 2 else text[at], at, at + width)
        at += width


def fold_plain_scalar(text: str, start: int, end: int) -> str:
    """Return the value of a plain scalar between two offsets."""
    return "".join(char.value for char in fold_lines(_scan_plain(text, start, end)))


def _scan_single_quoted(text: str, start: int, end: int) -> Iterator[ScannedCharacter]:
    chars = _scan_plain(text, start, end)
    for char in chars:
        second = next(chars, None) if char.value == "'" else None
        yield ScannedCharacter("'", char.start, second.end, True) if second else char


def _scan_double_quoted(text: str, start: int, end: int) -> Iterator[ScannedCharacter]:
    at = start
    while at < end:
        found = _scan_escape(text, at) if text[at] == "\\" else next(_scan_plain(text, at, end))
        yield found
        at = found.end


def _scan_escape(text: str, at: int) -> ScannedCharacter:
    found = LINE_END.match(text, at + 1)
    if found:
        return ScannedCharacter("", at, found.end(), True)
    code = text[at + 1 : at + 2]
    end = at + 2 + HEX_DIGITS.get(code, 0)
    if code not in HEX_DIGITS:
        return ScannedCharacter(ESCAPES.get(code, code), at, end, True)
    return ScannedCharacter(chr(int(text[at + 2 : end], 16)), at, end, True)


def fold_lines(chars: Iterable[ScannedCharacter]) -> list[ScannedCharacter]:
    """Fold lines: one break becomes a space; of several, the first and the blanks are dropped."""
    done: list[ScannedCharacter] = []
    blanks: list[ScannedCharacter] = []
    breaks: list[ScannedCharacter] = []
    for char in chars:
        if char.is_break:
            blanks = []
            breaks.append(char)
        elif char.is_blank:
            blanks.append(char)
        else:
            done += _fold_breaks(breaks) if breaks else blanks
            # An escaped break acts as a character for the text before it, as a break after it.
            done += (char,) if char.value else ()
            blanks, breaks = [], [] if char.value else [char]
    return done + (_fold_breaks(breaks) if breaks else blanks)


def _fold_breaks(breaks: list[ScannedCharacter]) -> list[ScannedCharacter]:
    """Return the characters that the line breaks between two texts become."""
    ends = [ScannedCharacter("\n", char.start, char.end) for char in breaks[1:]]
    if breaks[0].value and not ends:
        return [ScannedCharacter(" ", breaks[0].start, breaks[0].end)]
    return ends


BLOCK_HEADER = compile_pattern(r"[|>]([-+1-9]{0,2})[ \t]*(?:#[^\r\n]*)?(?:\r\n|[\r\n]|$)")


class BlockLine(NamedTuple):
    """A line of a block: where it starts and ends, and where its line break ends."""

    start: int
    end: int
    next: int


def _scan_block(scalar: YamlScalar, start: int) -> Sequence[tuple[int, int]]:
    """Return the offsets of a `|` or `>` scalar.

    The indentation of the parent of an explicit indicator is unknown; all columns are tried.
    """
    text = scalar.file.text
    header = BLOCK_HEADER.match(text, start)
    if header is None:
        return ()
    lines = list(_split_lines(text, header.end(), scalar.end))
    for indent in _candidate_indents(text, lines, explicit=any(c.isdigit() for c in header[1])):
        chars = _scan_block_at(text, lines, indent, folded=scalar.style == ">")
        found = _accept_if_equal(scalar, _chomp(chars, lines, header[1]))
        if found:
            return found
    return ()


def _split_lines(text: str, start: int, end: int) -> Iterator[BlockLine]:
    while start < end:
        found = LINE_END.search(text, start)
        stop, after = (found.start(), found.end()) if found else (len(text), len(text))
        yield BlockLine(start, stop, after)
        start = after


def _candidate_indents(text: str, lines: list[BlockLine], *, explicit: bool) -> Iterable[int]:
    """Return the columns in which the content may begin."""
    deepest = 0
    for line in lines:
        content = text[line.start : line.end]
        width = len(content) - len(content.lstrip(" "))
        if content.strip(" ") and not explicit:
            return (width,)
        deepest = max(deepest, width)
    return range(1, deepest + 1)


def _scan_block_at(
    text: str, lines: list[BlockLine], indent: int, *, folded: bool
) -> list[ScannedCharacter]:
    """Return the block's characters and line breaks, if its content begins in that column."""
    done: list[ScannedCharacter] = []
    breaks: list[ScannedCharacter] = []
    foldable = False
    for line in lines:
        begin = line.start + indent
        if begin < line.end:
            is_text = text[begin] not in " \t"
            done += _fold_breaks(breaks) if folded and foldable and is_text and breaks else breaks
            done += _scan_plain(text, begin, line.end)
            breaks, foldable = [], is_text
        breaks.append(ScannedCharacter("\n", line.end, line.next))
    return done + breaks


def _chomp(
    chars: list[ScannedCharacter], lines: list[BlockLine], indicators: str
) -> list[ScannedCharacter]:
    """Apply the chomping indicator: `+` keeps all breaks at the end, `-` none, otherwise one."""
    end = len(chars)
    while end and chars[end - 1].value == "\n":
        end -= 1
    real = [char for char in chars[end:] if char.end > char.start]
    if "+" in indicators:
        return chars[:end] + real
    return chars[:end] + (real[:1] if end and "-" not in indicators else [])
