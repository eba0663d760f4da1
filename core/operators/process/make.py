"""The operator for a user's class: it handles rows one by one, or many at once."""

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
    """The operator for a class of two inputs, one of which may be for all keys."""
    kind = ProcessingRuled if matching.everywhere else ProcessingTwo
    return kind(join, matching.body, place, around)


def process_operator(operation: nodes.Process, place: Place, around: Around) -> Operator:
    """The operator that does this, over the state of its subtask."""
    many = hasattr(around.code.load(), ProcessingMany.method)
    return (ProcessingMany if many else Processing)(operation, place, around)
