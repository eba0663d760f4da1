"""Random patterns on Spark, against the interpreter of rows: `N [SEED]` on the command line."""

from __future__ import annotations

import sys

from hypothesis import strategies as st

from tests.support.reference import random_patterns
from tests.support.spark.random_pipelines import SOURCES, Chains, main

PATTERNS = 6
"""The number of patterns of a pipeline."""


@st.composite
def drawn(draw: st.DrawFn) -> Chains:
    """Draw steps with patterns; all sources are read."""
    chains = Chains()
    for number in range(PATTERNS):
        source = SOURCES[number % len(SOURCES)]
        name, unfinished = f"m{number}_", f"m{number}_unfinished"
        chains.ends.append(chains.add(name, source, draw(random_patterns.clauses(unfinished))))
        chains.ends.append(unfinished)
    return chains


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]), pipelines=drawn())
