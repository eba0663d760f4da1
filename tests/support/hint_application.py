"""Hints that are followed: the text that a hint proposes is put where the error is.

A hint that proposes a text has one of the forms in `FORMS`: "write x" replaces the characters at
the caret, and so do "did you mean" and the like. "as in x" shows an example of the same form, which
is not put in: it has to be valid by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import yaml

from headrace.core.errors.problems import Location


@dataclass(frozen=True, slots=True)
class Mistake:
    """An error that was reported: the whole text, the characters at the caret, and the words."""

    text: str
    start: int
    end: int
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Edit:
    """The text after a hint was followed, and its characters that were put in."""

    text: str
    start: int
    end: int


Apply = Callable[[Mistake, str], Iterator[Edit]]

ANNOTATION = re.compile(r"; the value here is .*$")
PROSE = re.compile(
    r"write (plain quotes|the (name of each|whole character)|only what|each column by"
    r"|a full comparison|it under |all of them as|\\\\ for a backslash)"
    r"|in quotes it is no expression either|write out"
)
"""Advice in words, which proposes no text."""


def locate(text: str, location: Location) -> tuple[int, int]:
    """Return the characters of a location within the whole text."""
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: location.line - 1])) + location.column - 1
    return start, start + location.length


def _replace(mistake: Mistake, proposed: str) -> Iterator[Edit]:
    """Replace the characters at the caret, with a space between two words.

    A mapping or a list replaces the quotes around a text, too.
    """
    before, after = mistake.text[: mistake.start], mistake.text[mistake.end :]
    if proposed[0] in "{[" and before[-1:] in ("'", '"') and before[-1:] == after[:1]:
        before, after = before[:-1], after[1:]
    left = " " if before[-1:].isalnum() and proposed[:1].isalnum() else ""
    right = " " if after[:1].isalnum() and proposed[-1:].isalnum() else ""
    start = len(before) + len(left)
    yield Edit(f"{before}{left}{proposed}{right}{after}", start, start + len(proposed))


def _replace_value(mistake: Mistake, proposed: str) -> Iterator[Edit]:
    """Replace the value around the caret with the same value in quotes."""
    value = yaml.safe_load(proposed)
    line = mistake.text.rfind("\n", 0, mistake.start) + 1
    begins = [found.start() for found in re.finditer(re.escape(value), mistake.text[line:])]
    start = max(line + at for at in begins if line + at <= mistake.start)
    whole = replace(mistake, start=start, end=start + len(value))
    yield from _replace(whole, proposed)


def _replace_entry(mistake: Mistake, proposed: str) -> Iterator[Edit]:
    """Replace the entry `key: value` of the line that the caret is in, or else what it marks."""
    key = proposed.partition(":")[0]
    line = mistake.text.rfind("\n", 0, mistake.start) + 1
    stop = mistake.text.find("\n", mistake.start)
    stop = len(mistake.text) if stop < 0 else stop
    found = [
        line + match.start(1)
        for match in re.finditer(
            rf"(?:^|[\s{{,])({re.escape(key)})\s*[:=]", mistake.text[line:stop]
        )
        if line + match.start(1) <= mistake.start
    ]
    if not found and re.match(r"\w*\s*:", mistake.text[mistake.end :]):
        yield from _replace_entry_at_caret(mistake, proposed)
        return
    if not found:
        yield from _replace(mistake, proposed)
        return
    start = found[-1]
    end = max(_find_value_end(mistake.text, start, stop), mistake.end)
    after = mistake.text[end:]
    yield Edit(mistake.text[:start] + proposed + after, start, start + len(proposed))


def _replace_entry_at_caret(mistake: Mistake, proposed: str) -> Iterator[Edit]:
    """Replace the key at the caret and its value."""
    stop = mistake.text.find("\n", mistake.start)
    end = _find_value_end(mistake.text, mistake.start, len(mistake.text) if stop < 0 else stop)
    yield from _replace(replace(mistake, end=end), proposed)


def extend_to_value(edit: Edit) -> Edit:
    """Return the edit with the value of a key that was put in, up to the end of its line."""
    ahead = re.match(r"[\"']?\s*:", edit.text[edit.end :])
    stop = edit.text.find("\n", edit.end)
    stop = len(edit.text) if stop < 0 else stop
    end = _find_value_end(edit.text, edit.start, stop) if ahead else edit.end
    return replace(edit, end=end)


def _find_value_end(text: str, start: int, stop: int) -> int:
    """Return the end of an entry of one line: a bracket that closes more than it opens, or a comma
    of a flow mapping, ends it."""
    depth, in_flow = 0, text.rfind("{", 0, start) > text.rfind("\n", 0, start)
    for at in range(start, stop):
        if text[at] in "{[(":
            depth += 1
        if text[at] in "}])":
            depth -= 1
        if depth < 0 or (in_flow and depth == 0 and text[at] == ","):
            return at
    return stop


def _put_around(mistake: Mistake, proposed: str) -> Iterator[Edit]:
    """Put a call around the characters at the caret, where it says `...`."""
    written = mistake.text[mistake.start : mistake.end]
    yield from _replace(mistake, proposed.replace("...", written))


def _replace_with_each(mistake: Mistake, proposed: str) -> Iterator[Edit]:
    """Replace the characters at the caret with each of several texts: `5ms, 5s or 5m`."""
    for text in re.split(r", (?:or )?| or ", proposed):
        yield from _replace(mistake, text)


def _replace_by_form(mistake: Mistake, proposed: str) -> Iterator[Edit]:
    """Replace an entry with an entry, and anything else at the caret."""
    proposed = re.sub(r"(: names have no|, or |, for |; ).*$", "", proposed)
    if re.match(r"[\w-]+: \S", proposed):
        yield from _replace_entry(mistake, proposed)
    elif re.fullmatch(r"\w+\.\w+( or \w+\.\w+)+", proposed):
        yield from _replace_with_each(mistake, proposed)
    else:
        yield from _replace(mistake, proposed)


FORMS: tuple[tuple[re.Pattern[str], Apply], ...] = (
    (re.compile(r'did you mean ".+?", as in (.+)\?$'), _replace_entry_at_caret),
    (re.compile(r'did you mean "(.+?)"\?'), _replace),
    (re.compile(r"did you mean (\$\{.+?\})\?"), _replace),
    (re.compile(r"put the pattern in quotes: (.+)$"), _replace),
    (re.compile(r'write "([^"]+)"$'), _replace),
    (re.compile(r"(?:write it as|give it a type:) (.+)$"), _replace),
    (re.compile(r"^(first\(\w+\)), or add it to key"), _replace),
    (re.compile(r"^write (.+)$"), _replace_by_form),
    (re.compile(r"add a unit: (.+)$"), _replace_with_each),
    (re.compile(r"^((?:try_)?cast\(\.\.\. as [^ ]+\)|to_\w+\(\.\.\.\)) "), _put_around),
    (re.compile(r"its plain name: (.+)$"), _replace),
    (re.compile(r"a column of that name is written (`.+`)$"), _replace),
    (re.compile(r"put it in quotes: (\w+: .+)$"), _replace_entry),
    (re.compile(r"put it in quotes: (.+)$"), _replace_value),
)
_MENTIONS = re.compile(
    r"\bwrite\b|^(try_)?cast\(\.\.\. as|^to_\w+\(\.\.\.\) reads|^give it a type|, or add it to key"
    r"|did you mean|put .*in quotes: "
)


def proposes_text(hint: str) -> bool:
    """Whether a hint proposes a text, in words that `FORMS` knows or not."""
    return bool(_MENTIONS.search(hint)) and not PROSE.search(hint)


def find_examples(hint: str) -> list[str]:
    """Return the examples that a hint shows with "as in", without what is said about them."""
    found = re.search(r"as in (.+)$", hint)
    return [re.split(r"; |, (?:or|for) ", found[1])[0]] if found else []


def follow_hint(mistake: Mistake) -> list[Edit]:
    """Return the text after the hint was followed, in each way that the hint leaves open."""
    hint = ANNOTATION.sub("", mistake.hint)
    for pattern, apply in FORMS:
        if found := pattern.search(hint):
            return list(apply(mistake, found[1]))
    return []
