"""Sentences and words of texts, as Java's `BreakIterator` finds them with its default rules.

Every character is replaced by the letter of its class, so that the rules are regular expressions
over a short alphabet. Java's rules read ahead: a full stop ends a sentence only if another one
begins after it, with a letter that is not lower case. Where they read on in vain they may also cut
at places that no reader would choose, as before a full stop; that is kept. Only the rules of Thai,
which has a dictionary, are others. Java's classes are those of the Unicode version of its release.
Tested in tests/core/spark/cases/sentences.json.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache

_IGNORED = "i"
"""The class of characters that the rules of words leave out."""

_LETTERS_AND_DIGITS = frozenset(("Lu", "Ll", "Lt", "Lm", "Lo", "Nd"))


def split_sentences(text: str) -> list[list[str]]:
    """Return the words of each sentence of the text.

    >>> split_sentences("Hi there! It's 3.5.")
    [['Hi', 'there'], ["It's", '3.5']]
    """
    sentences = _cut(text, _classify_for_sentences, _find_sentence_end)
    return [
        [*filter(_is_word, _cut(each, _classify_for_words, _find_word_end))] for each in sentences
    ]


def _is_word(part: str) -> bool:
    """Whether the part begins with a letter or a digit, in one unit of UTF-16."""
    return part[0] <= "\uffff" and unicodedata.category(part[0]) in _LETTERS_AND_DIGITS


def _cut(
    text: str, classify: Callable[[str], str], find_end: Callable[[str, int], int]
) -> Iterator[str]:
    """Yield the parts of a text; characters that are ignored belong to the part before them."""
    classes = "".join(map(classify, text))
    places: Sequence[int] = range(len(classes))
    if _IGNORED in classes:
        places = [at for at, letter in enumerate(classes) if letter != _IGNORED]
        classes = classes.replace(_IGNORED, "")
    start = at = 0
    while at < len(classes):
        at = find_end(classes, at)
        end = places[at] if at < len(places) else len(text)
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


@cache
def _classify_for_sentences(character: str) -> str:
    """Return the class: l and u are letters, lower case and other, q is a quotation mark, b what
    may begin a sentence, j what changes nothing."""
    category = unicodedata.category(character)
    if category in ("Mn", "Me", "Cf"):
        return "j"
    if category.startswith("L"):
        return "l" if category == "Ll" else "u"
    if category == "Zs" or character in "\t\r\f\n\u2028":
        return " "
    for letter, members in _SENTENCE_CHARACTERS.items():
        if character in members:
            return letter
    return _SENTENCE_CATEGORIES.get(category, "b")


_SENTENCE_CHARACTERS = {
    **{"d": "\u0964\u0965", "P": "\u2029", "q": "\"'", ",": ","},
    **{"!": "!?\u3002\uff01\uff1f", ".": ".\uff0e"},
}
_SENTENCE_CATEGORIES = {
    **{"Ps": "(", "Pi": "(", "Pe": ")", "Pf": ")"},
    **{"Nd": "n", "Nl": "n", "No": "n"},
}

_STOP, _STOP_QUOTE, _STOP_SPACE, _STOP_SPACES = "stop", "quote", "space", "spaces"
_MAY_END = (_STOP, _STOP_QUOTE, _STOP_SPACE, _STOP_SPACES)
"""The states after a full stop in which the sentence may be at its end."""

_OPENING, _UNSURE = "opening", "unsure"
_INSIDE, _NEXT, _BREAK = "inside", "next", "break"

# The state after a class in each state; what is not listed goes on inside the sentence.
_AFTER_STOP: dict[str, dict[str, str]] = {
    _STOP: {" ": _STOP_SPACE, **dict.fromkeys(".)", _STOP), "q": _STOP_QUOTE},
    _STOP_QUOTE: {" ": _STOP_SPACE, **dict.fromkeys(".)", _STOP), "q": _STOP_QUOTE},
    _STOP_SPACE: {" ": _STOP_SPACES, ".": _STOP, "u": _NEXT},
    _STOP_SPACES: {" ": _STOP_SPACES, ".": _STOP},
    _OPENING: {".": _STOP},
    _UNSURE: dict.fromkeys(" .!,Pn)", _BREAK),
}
_AFTER_STOP[_STOP] |= dict.fromkeys("(bd", _OPENING)
_AFTER_STOP[_STOP_QUOTE] |= dict.fromkeys("(bd", _UNSURE)
_AFTER_STOP[_STOP_SPACE] |= dict.fromkeys("(bdq", _OPENING)
_AFTER_STOP[_STOP_SPACES] |= dict.fromkeys("(bdq", _UNSURE)
_AFTER_STOP[_OPENING] |= dict.fromkeys("(bdq", _OPENING)
_AFTER_STOP[_UNSURE] |= dict.fromkeys("(bdq", _OPENING)
for _state in (_STOP_QUOTE, _STOP_SPACES, _OPENING, _UNSURE):
    _AFTER_STOP[_state] |= dict.fromkeys("lu", _NEXT)

_MARK = re.compile("[.!dP]")
_CERTAIN_END = {
    "!": re.compile("![!.)qj]*[ j]*(?:Pj*)?"),
    "d": re.compile("d[ j]*"),
    "P": re.compile("Pj*"),
}


def _find_sentence_end(classes: str, start: int) -> int:
    """Return the end of the sentence that begins here."""
    at = start
    while found := _MARK.search(classes, at):
        if found[0] != ".":
            rest = _CERTAIN_END[found[0]].match(classes, found.start())
            assert rest is not None
            return rest.end()
        state, at = _read_after_stop(classes, found.end())
        if state == _NEXT or (state in _MAY_END and at == len(classes)):
            return at
        if state != _INSIDE:  # not settled: nothing is sure from the full stop on
            return max(start + 1, found.start())
    return len(classes)


def _read_after_stop(classes: str, at: int) -> tuple[str, int]:
    """Return the state that settles what follows a full stop; and the place where the next sentence
    may begin, or where this one is read on."""
    state, begin = _STOP, at
    for place in range(at, len(classes)):
        letter = classes[place]
        if letter != "j":
            state = _AFTER_STOP[state].get(letter, _INSIDE)
            if state == _INSIDE:
                return state, place
            if state in (_NEXT, _BREAK):
                return state, begin
        if state in _MAY_END:
            begin = place + 1
    return state, begin


@cache
def _classify_for_words(character: str) -> str:
    """Return the class: e is a mark on the character before it, E such a mark of Kana, m and y
    stand in the middle of words, comma and full stop in numbers, q in both."""
    category, code = unicodedata.category(character), ord(character)
    for letter, members in _WORD_CHARACTERS.items():
        if character in members:
            return letter
    for letter, first, last in _SCRIPTS:
        if first <= code <= last:
            return letter
    if category.startswith("L"):
        return "l"
    return _WORD_CATEGORIES.get(category, "b")


_WORD_CHARACTERS = {
    **{"d": "\u0964\u0965", "q": "\"'", ".": ".", ",": ",\u066b", "m": "\u2027", "y": "\u00ad"},
    **{"o": "\u00a2%&\u066a\u2030\u2031", "p": "#", "s": "\n\f\u2028\u2029", "r": "\r", " ": "\t"},
    **{"K": "\u3005", "T": "\u30fd\u30fe", "H": "\u309d\u309e", "C": "\u309b\u309c\u30fb\u30fc"},
    **{"E": "\u3099\u309a"},
}
_SCRIPTS = (
    *(("K", 0x4E00, 0x9FA5), ("K", 0xF900, 0xFA2D)),
    *(("T", 0x30A1, 0x30FA), ("H", 0x3041, 0x3094)),
)
_WORD_CATEGORIES = {
    **{"Cf": _IGNORED, "Mn": "e", "Me": "e", "Mc": "l", "Nd": "n", "Nl": "n", "No": "n"},
    **{"Pd": "m", "Pc": "m", "Sc": "p", "Zs": " ", "Cc": "x", "Zl": "x", "Zp": "x"},
}

_LETTER, _DIGIT = "(?:l[eE]*)", "(?:n[eE]*)"
_WORD = f"(?:{_LETTER}+(?:[mqy.]{_LETTER}+)*d?)"
_NUMBER = f"(?:{_DIGIT}+(?:[,q.]{_DIGIT}+)*)"
_NUMBERS = f"(?:{_NUMBER}{_WORD})*(?:{_NUMBER}o?)?"
_PART = re.compile(
    f"(?=[ln]){_WORD}?{_NUMBERS}|[p.](?=n){_NUMBERS}|(?=[ rs])(?: [eE]*)*r?s?|[^eExsry][eE]+|."
)
_KANA = tuple(re.compile(each) for each in ("[TCE]+", "[HCE]+", "K+"))


def _find_word_end(classes: str, start: int) -> int:
    """Return the end of the word, number, run of spaces or other character that begins here."""
    found = _PART.match(classes, start)
    assert found is not None
    if classes[start] not in "TCEHK":
        return found.end()
    runs = (rule.match(classes, start) for rule in _KANA)
    return max(found.end(), *(run.end() for run in runs if run))
