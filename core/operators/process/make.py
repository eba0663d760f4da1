"""The operator for a user's class: it handles rows one by one, or many at once."""

from __future__ import annotations

from headrace.core.operators.operator import Operator
from headrace.core.operators.place import Place
from headrace.core.operators.process.around import Around
from headrace.core.operators.process.many import ProcessingMany
from headrace.core.operators.process.processing import Processing
from headrace.core.plan import nodes


def process_operator(operation: nodes.Process, place: Place, around: Around) -> Operator:
    """The operator that does this, over the state of its subtask."""
    many = hasattr(around.code.load(), ProcessingMany.method)
    return (ProcessingMany if many else Processing)(operation, place, around)
