"""For each character of a scalar's value, the characters of the file that wrote it.

PyYAML gives a scalar's value and where it begins and ends, but not how one became the other: lines
are folded, escapes replaced, indentation dropped. So the scalar is scanned once more, by the same
rules, keeping offsets. The scan is believed only if it arrives at the same value; otherwise there
are no offsets, and problems point at the scalar as a whole. It runs only when a problem is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.core.pipeline.nodes import Scalar


class Char(NamedTuple):
    """A character of the value, written by `[start, end)` of the file."""

    value: str
    start: int
    end: int


PROPERTIES = re.compile(r"(?:[&!][^\s]*(?:\s|#[^\n\r]*(?=[\n\r]))*)*")
BREAK = re.compile(r"\r\n|[\r\n\x85\u2028\u2029]")
ESCAPES = {
    **{"0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f"},
    **{"r": "\r", "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\"},
    **{"N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"},
}
HEX_DIGITS = {"x": 2, "u": 4, "U": 8}


def offsets(scalar: Scalar) -> Sequence[tuple[int, int]]:
    """One pair a character of the value; none at all if they could not be found."""
    text, start, end = scalar.file.text, content_start(scalar), scalar.end
    match scalar.style:
        case "'":
            return _if_same(scalar, _folded(_single(text, start + 1, end - 1)))
        case '"':
            return _if_same(scalar, _folded(_double(text, start + 1, end - 1)))
        case "|" | ">":
            return _block(scalar, start)
        case _:
            return _if_same(scalar, _folded(_plain(text, start, end)))


def content_start(scalar: Scalar) -> int:
    """Where the text itself begins, behind `&anchor` and `!tag`."""
    if scalar.file.text[scalar.start : scalar.start + 1] not in ("&", "!"):
        return scalar.start
    found = PROPERTIES.match(scalar.file.text, scalar.start, scalar.end)
    return found.end() if found else scalar.start


def _if_same(scalar: Scalar, chars: list[Char]) -> Sequence[tuple[int, int]]:
    if "".join(char.value for char in chars) != scalar.value:
        return ()
    return [(char.start, char.end) for char in chars]


def _plain(text: str, start: int, end: int) -> Iterator[Char]:
    return (Char(text[at], at, at + 1) for at in range(start, end))


def _single(text: str, start: int, end: int) -> Iterator[Char]:
    at = start
    while at < end:
        width = 2 if text.startswith("''", at) else 1
        yield Char(text[at], at, at + width)
        at += width


def _double(text: str, start: int, end: int) -> Iterator[Char]:
    """Escaped characters come out wider than one, which is how folding knows them."""
    at = start
    while at < end:
        if text[at] != "\\":
            yield Char(text[at], at, at + 1)
            at += 1
            continue
        found = BREAK.match(text, at + 1)
        code = text[at + 1 : at + 2]
        width = found.end() - at if found else 2 + HEX_DIGITS.get(code, 0)
        yield Char("" if found else _unescape(code, text[at + 2 : at + width]), at, at + width)
        at += width


def _unescape(code: str, digits: str) -> str:
    if code not in HEX_DIGITS:
        return ESCAPES.get(code, code)
    try:
        return chr(int(digits, 16))
    except (ValueError, OverflowError):
        return ""


def _folded(chars: Iterator[Char]) -> list[Char]:
    """Line folding: one break is a space, more are kept but for the first, blanks around go."""
    done: list[Char] = []
    blanks: list[Char] = []
    breaks: list[Char] = []
    escaped_break = False
    for char in chars:
        is_escape = char.end - char.start > 1 and char.value != "'"
        if char.value == "":
            done += _joined(breaks, escaped_break) if breaks else blanks
            blanks, breaks, escaped_break = [], [], True
        elif not is_escape and BREAK.match(char.value):
            blanks = []
            # Of CR LF the second is no break of its own.
            if (
                char.value == "\n"
                and breaks
                and breaks[-1].value == "\r"
                and (breaks[-1].end == char.start)
            ):
                breaks[-1] = Char("\n", breaks[-1].start, char.end)
            else:
                breaks.append(char)
        elif not is_escape and char.value in " \t":
            blanks.append(char)
        else:
            if breaks:
                done += _joined(breaks, escaped_break)
            elif not escaped_break:
                done += blanks
            done.append(char)
            blanks, breaks, escaped_break = [], [], False
    return done + (_joined(breaks, escaped_break) if breaks else blanks)


def _joined(breaks: list[Char], escaped: bool) -> list[Char]:
    """What the breaks between two lines of text become."""
    ends = [
        Char("\n", char.start, char.end) if char.value in "\r\n\x85" else char for char in breaks
    ]
    if escaped:
        return ends
    if ends[0].value != "\n":
        return ends
    return ends[1:] or [Char(" ", ends[0].start, ends[0].end)]


HEADER = re.compile(r"[|>](?:([+-])?([1-9])?|([1-9])([+-]))[ \t]*(?:#[^\r\n]*)?(?:\r\n|[\r\n]|$)")


class Line(NamedTuple):
    """A line of a block: where it starts and ends, and where its line break ends."""

    start: int
    end: int
    next: int


def _block(scalar: Scalar, start: int) -> Sequence[tuple[int, int]]:
    """A `|` or `>` scalar. How far it is indented below its parent is tried, not known."""
    text = scalar.file.text
    header = HEADER.match(text, start)
    if header is None:
        return ()
    keep = header[1] or header[4] or ""
    lines = list(_lines(text, header.end(), scalar.end))
    for indent in _indents(text, lines, explicit=bool(header[2] or header[3])):
        found = _if_same(scalar, _block_at(text, lines, indent, scalar.style == ">", keep))
        if found or not scalar.value:
            return found
    return ()


def _lines(text: str, start: int, end: int) -> Iterator[Line]:
    while start < end:
        found = BREAK.search(text, start)
        stop, after = (found.start(), found.end()) if found else (len(text), len(text))
        yield Line(start, stop, after)
        start = after


def _indents(text: str, lines: list[Line], *, explicit: bool) -> list[int]:
    found: dict[int, None] = {}
    for line in lines:
        width = len(text[line.start : line.end]) - len(text[line.start : line.end].lstrip(" "))
        if not explicit and width < line.end - line.start:
            return [width]
        found[width] = None
    return list(range(1, max(found, default=0) + 1))


def _block_at(text: str, lines: list[Line], indent: int, folded: bool, keep: str) -> list[Char]:
    """The block's characters when its content begins in that column."""
    done: list[Char] = []
    waiting: list[Char] = []
    blank_before = True
    for line in lines:
        begin, ending = line.start + indent, Char("\n", line.end, line.next)
        if line.end <= begin:
            waiting.append(ending)
            continue
        is_blank = text[begin] in " \t"
        done += _between(waiting, folded and not blank_before and not is_blank, bool(done))
        done += (Char(text[at], at, at + 1) for at in range(begin, line.end))
        waiting, blank_before = [ending], is_blank
    if not done:
        return waiting if keep == "+" else []
    real = [char for char in waiting if char.end > char.start]
    return done + {"+": real, "-": []}.get(keep, real[:1])


def _between(breaks: list[Char], fold: bool, inner: bool) -> list[Char]:
    """What the breaks before a line become: folded ones lose the first, or are a space."""
    if not fold or not inner:
        return breaks
    return breaks[1:] or [Char(" ", breaks[0].start, breaks[0].end)]
