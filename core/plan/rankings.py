"""The rankings of `top` as text: an expression, then the words for direction and nulls."""

from __future__ import annotations

from headrace.core.expressions.parsing.lexer import tokenize
from headrace.core.expressions.typed import ExpressionError

NULL_PLACES = ("first", "last")


def parse_ordering(text: str) -> tuple[int, bool, bool]:
    """Return where the expression of a ranking ends, whether it is descending, and nulls last.

    >>> parse_ordering("price desc"), parse_ordering("a + b asc nulls last"), parse_ordering("desc")
    ((5, True, True), (5, False, True), (4, False, False))
    """
    try:
        words = [word for word in tokenize(text) if word.kind != "end"]
    except ExpressionError:
        return len(text), False, False
    texts = [word.text.lower() if word.kind == "word" else "" for word in words]
    nulls = (
        texts[-1] if len(texts) > 2 and texts[-2] == "nulls" and texts[-1] in NULL_PLACES else ""
    )
    if nulls:
        del texts[-2:]
    descending = len(texts) > 1 and texts[-1] == "desc"
    if len(texts) > 1 and texts[-1] in ("asc", "desc"):
        texts.pop()
    end = words[len(texts) - 1].span.end if len(texts) < len(words) else len(text)
    return end, descending, nulls == "last" if nulls else descending


def find_ranking_error(text: str) -> tuple[str, str] | None:
    """Return the error in a ranking that is not one expression, and a hint; None for others."""
    try:
        *words, _ = tokenize(text)
    except ExpressionError:
        return None
    depth = 0
    for word in words:
        depth += {"(": 1, ")": -1}.get(word.text, 0)
        if word.text == "," and not depth:
            return "wanted one expression, got several", "several are a list: [price desc, id]"
    texts = [word.text.lower() for word in words[1:]]
    if "desc" in texts or "asc" in texts:
        return 'wanted "nulls first", "nulls last" or nothing after asc and desc', ""
    return None
