"""The factories of the operators of user classes."""

from __future__ import annotations

from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Operator
from headrace.core.operators.process.process_broadcast import BroadcastProcessOperator
from headrace.core.operators.process.process_operator import ProcessOperator, UserCodeContext
from headrace.core.operators.process.process_two_inputs import TwoInputProcessOperator
from headrace.core.operators.process.process_vectorised import VectorisedProcessOperator
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import ConnectedMatch


def build_two_input_process(
    join: nodes.Join, matching: ConnectedMatch, place: KeyedContext, around: UserCodeContext
) -> TwoInputProcessOperator:
    """Build the operator of a class with two inputs, the right of which may be a broadcast."""
    kind = BroadcastProcessOperator if matching.is_broadcast else TwoInputProcessOperator
    return kind(join, matching.body, place, around)


def build_process(
    operation: nodes.Process, place: KeyedContext, around: UserCodeContext
) -> Operator:
    """Build the operator of `process`, which handles rows one by one or in batches."""
    many = hasattr(around.code.load(), VectorisedProcessOperator.method)
    return (VectorisedProcessOperator if many else ProcessOperator)(operation, place, around)
