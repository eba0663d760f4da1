"""Similarity of batches of pairs: each pair has the value that it has alone."""

from __future__ import annotations

from random import Random

import polars as pl

from headrace.core.expressions.functions.jaro_winkler import (
    measure_similarities,
    measure_similarity,
)

_LETTERS = ("ab", "abcdefgh", "aé日b", "a😀b\uffff\ufffe", "abcdefghijklmnopqrstuvwxyz ", "a\0b")
_SIZES = (0, 1, 2, 3, 7, 8, 9, 16, 17, 32, 33, 64, 65)


def test_pairs_are_as_similar_together_as_alone() -> None:
    random = Random(1)
    left = [_draw(random) for _ in range(3000)]
    right = [_change(text, random) for text in left]
    alone = [
        None if text is None or other is None else measure_similarity(text, other)
        for text, other in zip(left, right, strict=True)
    ]
    assert measure_similarities(pl.DataFrame({"a0": left, "a1": right})).to_list() == alone


def test_a_batch_may_be_empty_or_null() -> None:
    types = {"a0": pl.String, "a1": pl.String}
    assert measure_similarities(pl.DataFrame(schema=types)).to_list() == []
    nulls = pl.DataFrame({"a0": [None, "a"], "a1": ["a", None]}, schema=types)
    assert measure_similarities(nulls).to_list() == [None, None]


def _draw(random: Random) -> str | None:
    letters = random.choice(_LETTERS)
    text = "".join(random.choice(letters) for _ in range(random.choice(_SIZES)))
    return text if random.random() > 0.05 else None


def _change(text: str | None, random: Random) -> str | None:
    """Return the text with some characters in other places, or another one."""
    if not text or random.random() < 0.4:
        return _draw(random)
    characters = [*text]
    for _ in range(random.randrange(4)):
        at, to = (random.randrange(len(text)) for _ in range(2))
        characters[at], characters[to] = characters[to], characters[at]
    return "".join(characters[random.randrange(2) :])
