"""The factories of the operators of user classes."""

from __future__ import annotations

from headrace.core.operators.operator import Operator
from headrace.core.operators.place import Place
from headrace.core.operators.process.around import Around
from headrace.core.operators.process.many import ProcessingMany
from headrace.core.operators.process.processing import Processing
from headrace.core.operators.process.ruled import ProcessingRuled
from headrace.core.operators.process.sides import ProcessingTwo
from headrace.core.plan import nodes
from headrace.core.plan.matching import Connected


def process_two(
    join: nodes.Join, matching: Connected, place: Place, around: Around
) -> ProcessingTwo:
    """Build the operator of a class with two inputs, the right of which may be a broadcast."""
    kind = ProcessingRuled if matching.everywhere else ProcessingTwo
    return kind(join, matching.body, place, around)


def process_operator(operation: nodes.Process, place: Place, around: Around) -> Operator:
    """Build the operator of `process`, which handles rows one by one or in batches."""
    many = hasattr(around.code.load(), ProcessingMany.method)
    return (ProcessingMany if many else Processing)(operation, place, around)
