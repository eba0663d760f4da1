"""Grouping sets: the lists of expressions by each of which the rows are grouped once.

Tests: tests/core/sql/test_parser.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, combinations, product
from typing import TypeAlias

from headrace.core.expressions.parsing.syntax_tree import SyntaxNode

GroupingSet: TypeAlias = tuple[SyntaxNode, ...]
GroupingSets: TypeAlias = tuple[GroupingSet, ...]


def list_sets(form: str, parts: GroupingSets) -> GroupingSets:
    """Return the sets of `rollup` or `cube`, of which each argument is one or several expressions.

    The first set has all expressions.
    """
    sizes = range(len(parts), -1, -1)
    chosen: Iterable[Iterable[GroupingSet]]
    if form == "rollup":
        chosen = (parts[:size] for size in sizes)
    else:
        chosen = chain.from_iterable(combinations(parts, size) for size in sizes)
    return tuple(tuple(chain.from_iterable(each)) for each in chosen)


def combine_sets(groupings: Iterable[GroupingSets]) -> GroupingSets:
    """Return the sets of groupings with commas between them: each set of one with each of the
    others."""
    return tuple(tuple(chain.from_iterable(each)) for each in product(*groupings))
