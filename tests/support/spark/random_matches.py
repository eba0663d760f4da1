"""Random patterns and rules on Spark, against the interpreter: `N [SEED]` on the command line."""

from __future__ import annotations

import sys

from hypothesis import strategies as st

from tests.support.reference import random_patterns
from tests.support.spark.random_pipelines import SOURCES, Chains, main

PATTERNS = 6
"""The number of steps of a pipeline: every third has rules."""
RULES = st.lists(random_patterns.rules(), min_size=1, max_size=6)


@st.composite
def drawn(draw: st.DrawFn) -> Chains:
    """Draw steps with patterns or rules; all sources are read."""
    chains = Chains()
    for number in range(PATTERNS):
        source = SOURCES[number % len(SOURCES)]
        name, unfinished = f"m{number}_", f"m{number}_unfinished"
        if number % 3 == 2:
            rules, rejected = f"rules{number}", f"m{number}_rejected"
            chains.rules[rules] = draw(RULES)
            clauses = draw(random_patterns.rule_clauses(rules, unfinished, rejected))
            chains.ends.append(chains.add(f"m{number}_bad", rejected, ["select: [step]"]))
        else:
            clauses = draw(random_patterns.clauses(unfinished))
        chains.ends += [chains.add(name, source, clauses), unfinished]
    starts = chains.add(
        "m0_starts", "m0_unfinished", [random_patterns.STARTS.replace(", select", "\nselect")]
    )
    chains.ends.append(starts)
    return chains


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]), pipelines=drawn())
