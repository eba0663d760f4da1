"""The tests of a pipeline: the events given to it, and the rows expected of its streams.

Names and values are as written. `core/testing` compares them with a plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import date, timedelta
from typing import Literal, TypeAlias

from headrace.core.errors.problems import Location
from headrace.core.pipeline.sections import KeyedNode
from headrace.core.pipeline.text import Text
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GivenRow:
    """A row: its values by column, as the resolver returns them."""

    location: Location
    values: Mapping[Text, object]


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows of a source, by split."""

    source: Text
    splits: tuple[tuple[GivenRow, ...], ...]


@dataclass(frozen=True, slots=True)
class RaisedWatermark:
    """A source states that no earlier rows will follow."""

    source: Text
    time: Text


@dataclass(frozen=True, slots=True)
class BadRecords:
    """Records of a source that it cannot read."""

    source: Text
    records: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class IdleSplits:
    """Splits of a source that give no rows for now, by their numbers."""

    source: Text
    splits: tuple[tuple[Text, int], ...]


@dataclass(frozen=True, slots=True)
class ClockAdvance:
    """Time passes on the wall clock."""

    by: timedelta


@dataclass(frozen=True, slots=True)
class ControlEvent:
    """A checkpoint; a restart from the last one; a savepoint and its restore in a new home; an end.

    A restart kills the process, and an end is that of all inputs.
    """

    action: Literal["checkpoint", "restart", "savepoint", "end"]


@dataclass(frozen=True, slots=True)
class Rescale:
    """The job continues at another parallelism."""

    parallelism: int


@dataclass(frozen=True, slots=True)
class StreamExpectation:
    """The rows that a stream has emitted since it was last compared.

    `rows` are all of them, `contains` some of them; None: not compared.
    """

    stream: Text
    location: Location
    rows: tuple[GivenRow, ...] | None = None
    contains: tuple[GivenRow, ...] | None = None
    count: int | None = None
    where: Text | None = None
    """An expression that is true for each row."""
    is_subset: bool = False
    """Whether columns that a row does not name are not compared."""
    tolerance: float = 0.0
    """The largest difference between two doubles that count as equal."""
    is_ordered: bool = False
    is_changelog: bool = False
    """Whether changes are compared as they came, in place of the table that they result in."""
    spots: Mapping[str, KeyedNode] = field(default_factory=dict, repr=False)
    """The place of each check; a list alone is `rows` under the stream's key."""


METRICS = {"late": "late_rows", "bad": "bad_rows", "unfilled": "unfilled_rows"}
"""The counters that may be expected, with their names among the counts of a part."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The comparisons at one time, after a checkpoint."""

    streams: tuple[StreamExpectation, ...] = ()
    failure: Text | None = None
    """A part of the message with which the job has failed."""
    metrics: Mapping[Text, int] = field(default_factory=dict)
    metric_spots: Mapping[Text, KeyedNode] = field(default_factory=dict, repr=False)


Event: TypeAlias = (
    GivenRows
    | RaisedWatermark
    | BadRecords
    | IdleSplits
    | ClockAdvance
    | ControlEvent
    | Rescale
    | Expectation
)


@dataclass(frozen=True, slots=True)
class PlacedEvent:
    """An event, and where it is written."""

    location: Location
    event: Event


@dataclass(frozen=True, slots=True)
class PipelineTest:
    """A test of a pipeline: events in order, and between two of them the job comes to rest."""

    name: Text
    location: Location
    day: date | None
    """The day of times that are written without one."""
    events: tuple[PlacedEvent, ...]
    tables: Mapping[Text, tuple[GivenRow, ...]]
    """The rows of lookup tables, by the step that looks them up."""

    @property
    def subject(self) -> str:
        """The test in messages."""
        return f'test "{self.name}"'
