"""The similarity of Jaro and Winkler of many pairs of texts, as Spark computes it.

RapidFuzz counts whole transpositions, and adds the prefix only where the rest is similar. So the
algorithm is written here: for a batch of pairs with NumPy, a step for each pair of
places; for long texts and characters beyond 16 bits pair by pair.
"""

from __future__ import annotations

import operator
from itertools import takewhile
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

_Codes: TypeAlias = npt.NDArray[np.uint16]

_Mask: TypeAlias = npt.NDArray[np.bool_]

_WIDTHS = (8, 16, 24, 32, 48, 64)
"""Pairs are compared together with those whose longer text is of similar length."""

_ROWS = 8192
"""The pairs that are compared together: their characters fit the cache of a processor."""

_TAKEN = "\U0010ffff"
"""The code of a matched unit, which is above those of all units."""

_NO_LEFT, _NO_RIGHT = "\ufffe", "\uffff"
"""The fillers of texts to a width; they are no characters."""


def measure_similarities(frame: pl.DataFrame) -> pl.Series:
    """Return the similarity of the texts `a0` and `a1` of each row; null where one is null."""
    left, right = frame["a0"], frame["a1"]
    sizes = frame.select(pl.max_horizontal(pl.all().str.len_chars()).cast(pl.Int64)).to_series()
    is_plain = frame.select(~pl.any_horizontal(pl.all().str.contains("[\ufffe-\U0010ffff]")))
    given = left.is_not_null() & right.is_not_null()
    fits = given & is_plain.to_series() & (sizes <= _WIDTHS[-1])
    found = pl.Series([None], dtype=pl.Float64).new_from_index(0, frame.height)
    least = -1
    for width in _WIDTHS:
        rows = (fits & (sizes > least) & (sizes <= width)).arg_true()
        for start in range(0, len(rows), _ROWS):
            part = rows.slice(start, _ROWS)
            codes = _spread(left, part, width, _NO_LEFT), _spread(right, part, width, _NO_RIGHT)
            found.scatter(part, pl.Series(_compare(*codes)))
        least = width
    rest = (given & ~fits).arg_true()
    pairs = zip(left.gather(rest), right.gather(rest), strict=True)
    found.scatter(rest, pl.Series([measure_similarity(*pair) for pair in pairs], dtype=pl.Float64))
    return pl.select(pl.when(left == right).then(1.0).otherwise(found)).to_series()


def _spread(texts: pl.Series, rows: pl.Series, width: int, filler: str) -> _Codes:
    """Return the codes of the first characters of these rows, of the second ones and so on, each
    text filled up to a width."""
    padded = texts.gather(rows).str.pad_end(width, filler).str.join("").item()
    return np.frombuffer(padded.encode("utf-16-le"), np.uint16).reshape(len(rows), width).T.copy()


def _compare(left: _Codes, right: _Codes) -> npt.NDArray[np.float64]:
    left_sizes = (left != ord(_NO_LEFT)).sum(0)
    right_sizes = (right != ord(_NO_RIGHT)).sum(0)
    is_left, is_right = _match(left, right, np.maximum(left_sizes, right_sizes) // 2 - 1)
    counts = is_left.sum(0)
    # In both, the matched characters of a row are as many, and follow those of the row before.
    moved = left.T[is_left.T] != right.T[is_right.T]
    moves = np.bincount(np.repeat(np.arange(len(counts)), counts), moved, len(counts)) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        jaro = (counts / left_sizes + counts / right_sizes + (counts - moves) / counts) / 3
    prefix = np.cumprod(left[:4] == right[:4], axis=0).sum(0)
    return np.where(counts, jaro + prefix * 0.1 * (1 - jaro), 0.0)


def _match(left: _Codes, right: _Codes, reach: npt.NDArray[np.int64]) -> tuple[_Mask, _Mask]:
    """Return the characters of both sides that are matched: from left to right, each with the first
    equal one on the other side that is free and in reach."""
    width, count = left.shape
    most = width // 2 - 1
    in_reach = np.maximum(reach, 0) >= np.arange(most + 1)[:, None]
    is_left, is_free = np.zeros(left.shape, bool), np.ones(right.shape, bool)
    equal = np.empty(count, bool)
    for at in range(width):
        is_open = np.ones(count, bool)
        for place in range(max(at - most, 0), min(at + most + 1, width)):
            np.equal(left[at], right[place], out=equal)
            equal &= is_free[place]
            equal &= in_reach[abs(at - place)]
            equal &= is_open
            is_free[place] ^= equal
            is_open ^= equal
        is_left[at] = ~is_open
    return is_left, ~is_free


def _split_units(text: str) -> str:
    """Return the text with a character for each unit of UTF-16, which Spark compares."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    units = memoryview(text.encode("utf-16-le")).cast("H")
    return "".join(map(chr, units))


def measure_similarity(left: str, right: str) -> float:
    """Return the similarity of two texts."""
    if left == right:
        return 1.0
    left, right = _split_units(left), _split_units(right)
    reach = max(max(len(left), len(right)) // 2 - 1, 0)
    found, places, rest = [], [], right
    for at, character in enumerate(left):
        place = rest.find(character, max(0, at - reach), at + reach + 1)
        if place >= 0:
            found.append(character)
            places.append(place)
            rest = f"{rest[:place]}{_TAKEN}{rest[place + 1 :]}"
    count = len(found)
    if not count:
        return 0.0
    moved = sum(map(operator.ne, found, [right[place] for place in sorted(places)])) / 2
    jaro: float = (count / len(left) + count / len(right) + (count - moved) / count) / 3
    prefix = len([*takewhile(operator.truth, map(operator.eq, left[:4], right[:4]))])
    return jaro + prefix * 0.1 * (1 - jaro)
