"""The operator of each keyed operation."""

from __future__ import annotations

from headrace.core.operators.counting import Counting
from headrace.core.operators.dedup import First, Last
from headrace.core.operators.operator import Operator
from headrace.core.operators.place import Place
from headrace.core.operators.running import Running
from headrace.core.operators.sessions import Sessions
from headrace.core.operators.top import Top
from headrace.core.operators.windows.make import windowed
from headrace.core.plan import nodes
from headrace.core.plan.windows import Count, Cumulate, Global, Session, Slide, Tumble, Window


def keyed_operator(operation: nodes.Keyed, place: Place) -> Operator:
    """The operator that does this, over the state of its subtask."""
    match operation:
        case nodes.Aggregate(window=None):
            return Running(operation, place)
        case nodes.Aggregate(window=Window(shape=Session())):
            return Sessions(operation, place)
        case nodes.Aggregate(window=Window(shape=Count())):
            return Counting(operation, place)
        case nodes.Aggregate():
            return windowed(operation, place)
        case nodes.Top(window=None):
            return Top(operation, place)
        case nodes.Top(window=Window(shape=Tumble() | Slide() | Cumulate() | Global())):
            return windowed(operation, place)
        case nodes.Dedup(keep="first"):
            return First(operation, place)
        case nodes.Dedup():
            return Last(operation, place)
    raise NotImplementedError(operation)
