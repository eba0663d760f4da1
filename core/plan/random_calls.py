"""The keys of random values: of the pipeline's name, its seed, and the call.

A call without a seed of its own has a key by its step and its number among such calls in the step,
so that two calls have different values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from headrace.core.expressions.random_bits import make_key
from headrace.core.expressions.typed import RandomBits, replace_random_bits
from headrace.core.plan.nodes import Operation
from headrace.core.plan.row_expressions import replace_expressions


def assign_keys(operations: Sequence[Operation], step: str, scope: str) -> tuple[Operation, ...]:
    """Return the operations of a step with keys for their random values.

    `scope` is the text of the job's seed.
    """
    numbers = count()

    def assign_key(bits: RandomBits) -> RandomBits:
        call = f"seed {bits.seed}" if bits.seed is not None else f"{step} {next(numbers)}"
        return replace(bits, key=make_key(f"{scope} {call}"))

    return tuple(
        replace_expressions(operation, lambda typed: replace_random_bits(typed, assign_key))
        for operation in operations
    )
