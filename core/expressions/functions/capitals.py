"""`capitalize_words`: words with a capital first letter, by Unicode's rules for titles.

The title case of a letter is not always its upper case: `ﬁ` becomes `Fi` and not `FI`. Those
letters are listed; Python has the title case of each.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

# Letters whose title case differs from their upper case: both ends of each range are included.
_TITLE_RANGES = (
    "ßß ևև \u01c4\u01cc \u01f1\u01f3 \u10d0\u10fa \u10fd\u10ff \u1f80\u1faf \u1fb2\u1fb4"
    " \u1fb7\u1fb7 \u1fbc\u1fbc \u1fc2\u1fc4 \u1fc7\u1fc7 \u1fcc\u1fcc \u1ff2\u1ff4"
    " \u1ff7\u1ff7 \u1ffc\u1ffc \ufb00\ufb06 \ufb13\ufb17"
)


@cache
def _title_letters() -> dict[str, str]:
    ranges = [range(ord(ends[0]), ord(ends[1]) + 1) for ends in _TITLE_RANGES.split()]
    return {chr(code): chr(code).title() for codes in ranges for code in codes}


def capitalize_words(text: pl.Expr) -> pl.Expr:
    """Capitalize each word (only spaces separate words), and convert the rest to lower case."""
    import polars as pl

    word = pl.element()
    first = word.str.head(1)
    capital = first.replace_strict(
        _title_letters(), default=first.str.to_uppercase(), return_dtype=pl.String
    )
    # Lower case depends on the letter before, and the first letter may become two.
    rest = word.str.to_lowercase().str.slice(first.str.to_lowercase().str.len_chars())
    return text.str.split(" ").list.eval(pl.concat_str([capital, rest])).list.join(" ")
