"""Which rows of two inputs a join looks at together, beside the equality of their keys.

All times are microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.plan.windows import Ttl, Window

if TYPE_CHECKING:
    from headrace.core.plan.nodes import Body, Computed


@dataclass(frozen=True, slots=True)
class Within:
    """Rows whose times are near each other: the right one's less the left one's, both ends in.

    `ttl: 1h` is the same as from -1h to 1h. Without bounds all rows are kept for ever.
    """

    least_us: int | None = None
    most_us: int | None = None
    processing: bool = False
    """Whether a row's time is when it came, by the wall clock."""


@dataclass(frozen=True, slots=True)
class SameWindow:
    """Rows of one window, which is put out when it has ended."""

    window: Window


@dataclass(frozen=True, slots=True)
class AsOf:
    """For each left row the right one with the latest time that is not after the left one's.

    With `ttl`, none that is older than that, seen from the left row.
    """

    ttl_us: int | None = None


@dataclass(frozen=True, slots=True)
class Changing:
    """Inputs whose rows replace earlier ones: what is there now, and the changes of that.

    `keys` are the columns that tell the rows of each input apart, as they come; those by which
    rows meet are among them.
    """

    ttl: Ttl | None = None
    keys: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The right input is kept whole by every subtask, and any condition says which rows meet."""

    key: tuple[Computed, ...] | None
    """What makes one right row take the place of another; None: nothing does."""
    ttl_us: int | None = None
    """How long a right row holds."""
    in_time: bool = True
    """Whether rows meet what held at their time, for which they wait, or what has come by then."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The rows of each input are handed to a user's class, which knows what belongs together."""

    body: Body
    everywhere: bool = False
    """Whether the right input goes to every subtask: its rows are rules, for all keys."""


Matching: TypeAlias = Within | SameWindow | AsOf | Changing | Everywhere | Connected
