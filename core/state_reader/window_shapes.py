"""The shapes of windows as checkpoints have them: stored names, whatever the code calls them."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.plan.nodes.windows import (
    Count,
    Cumulate,
    Global,
    Session,
    Slide,
    Tumble,
    WindowShape,
)


def encode_shape(shape: WindowShape) -> dict[str, dict[str, int]]:
    """Returns a shape as plain data.

    >>> encode_shape(Tumble(60))
    {'tumble': {'size_us': 60, 'offset_us': 0}}
    """
    match shape:
        case Tumble(size, offset):
            return {"tumble": {"size_us": size, "offset_us": offset}}
        case Slide(size, every, offset):
            return {"slide": {"size_us": size, "every_us": every, "offset_us": offset}}
        case Cumulate(size, every, offset):
            return {"cumulate": {"size_us": size, "every_us": every, "offset_us": offset}}
        case Session(gap):
            return {"session": {"gap_us": gap}}
        case Count(rows, every_rows):
            return {"count": {"rows": rows, "every": every_rows}}
        case Global():
            return {"global": {}}


def read_shape(stored: Mapping[str, Mapping[str, int]]) -> WindowShape:
    """Returns the shape of plain data. Raises KeyError where it is of another version.

    >>> read_shape({"session": {"gap_us": 5}})
    Session(gap_us=5)
    """
    ((name, lengths),) = stored.items()
    match name:
        case "tumble":
            return Tumble(lengths["size_us"], lengths["offset_us"])
        case "slide":
            return Slide(lengths["size_us"], lengths["every_us"], lengths["offset_us"])
        case "cumulate":
            return Cumulate(lengths["size_us"], lengths["every_us"], lengths["offset_us"])
        case "session":
            return Session(lengths["gap_us"])
        case "count":
            return Count(lengths["rows"], lengths["every"])
        case "global":
            return Global()
    raise KeyError(name)
