"""Documents of state that is stored as frames: the frames are blobs, a document holds the rest.

A state of runs is its frames; of each, the rows after the first `skip`, except for deleted rows,
whose numbers are in a blob. A table is its log and the numbers of the rows that were removed from
the log. So a checkpoint writes only what was added or merged since the previous one: rows move from
frame to frame a few times and then stay.

A frame is a list of blobs, mostly one.

    {"format": "frames", "groups": [0, 128], "key_groups": 128, "clock_us": 12000000,
     "late": 3, "unfilled": 0, "states": {
       "windows": {"shape": "runs", "key": ["k"],
                   "frames": [{"frame": [BLOB], "skip": 10, "gone": null}]},
       "keys": {"shape": "table", "group": null, "now_us": 12000000,
                "frames": [{"frame": [BLOB], "skip": 0, "gone": null}], "removed": null}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from headrace.core.api.snapshots import DamagedSnapshot
from headrace.core.api.state import Document, Redistribution, StateDescriptor, StepCounters
from headrace.core.api.stored_documents import convert_plain, describe_mismatch
from headrace.core.api.user_metrics import MetricValues
from headrace.state.memory.frame_blobs import FrameBlobNames

RUNS, TABLE, ENTRIES = "runs", "table", "entries"


Typed = TypeVar("Typed", bound=msgspec.Struct)


def to_plain(document: msgspec.Struct) -> Document:
    """Convert a typed document to plain data, as JSON has it."""
    built = msgspec.to_builtins(document)
    assert isinstance(built, Mapping)
    return built


def build_metrics_document(values: MetricValues) -> MetricsDocument | UnsetType:
    """Build the document of metrics; unset without any."""
    return MetricsDocument(values.counters, values.gauges) if values else UNSET


def to_typed(document: object, kind: type[Typed]) -> Typed:
    """Convert plain data to a typed document. Raises DamagedSnapshot."""
    try:
        return convert_plain(document, kind)
    except msgspec.ValidationError as error:
        why = describe_mismatch(error)
        raise DamagedSnapshot(f"wanted the state of a step, got another: {why}") from error


def get_shape_name(shape: StateDescriptor) -> str:
    """Return the name of a shape in documents."""
    if shape.redistribution is not None:
        return ENTRIES
    return TABLE if shape.is_table else RUNS


class FrameSegment(msgspec.Struct, forbid_unknown_fields=True):
    """Rows of a frame after the first `skip`, except those whose numbers are in `gone`.

    Another key may be a damaged `gone`: without it, deleted rows would return.
    """

    frame: FrameBlobNames = field(name="frame")
    skip: int = field(name="skip")
    gone: FrameBlobNames | None = field(default=None, name="gone")


class RunsDocument(msgspec.Struct, tag_field="shape", tag=RUNS):
    """Document of a state of runs."""

    key: tuple[str, ...] = field(name="key")
    frames: list[FrameSegment] = field(name="frames")

    @property
    def descriptor(self) -> StateDescriptor:
        return StateDescriptor(is_table=False, key=self.key)


class TableDocument(msgspec.Struct, tag_field="shape", tag=TABLE):
    """Document of a table."""

    group: tuple[str, ...] | None = field(name="group")
    now_us: int = field(name="now_us")
    frames: list[FrameSegment] = field(name="frames")
    removed: FrameBlobNames | None = field(name="removed")

    @property
    def descriptor(self) -> StateDescriptor:
        return StateDescriptor(is_table=True, key=self.group)


class EntriesDocument(msgspec.Struct, tag_field="shape", tag=ENTRIES):
    """Document of entries."""

    spread: Redistribution = field(name="spread")
    rows: FrameBlobNames | None = field(name="rows")

    @property
    def descriptor(self) -> StateDescriptor:
        return StateDescriptor(is_table=False, key=None, redistribution=self.spread)


FrameStateDocument: TypeAlias = RunsDocument | TableDocument | EntriesDocument


GroupNumber: TypeAlias = Annotated[int, Meta(ge=0)]


class MetricsDocument(msgspec.Struct):
    """The metrics of a step's user code."""

    counters: dict[str, int] = field(name="counters")
    gauges: dict[str, float] = field(name="gauges")


class _MetricsField(msgspec.Struct, kw_only=True):
    metrics: MetricsDocument | UnsetType = field(name="metrics", default=UNSET)
    """Absent from steps without user code that has metrics."""


class StepHeader(_MetricsField):
    """First fields of each document of a step: `groups` have one clock, out of `key_groups`."""

    groups: tuple[GroupNumber, GroupNumber] = field(name="groups")
    key_groups: Annotated[int, Meta(ge=1)] = field(name="key_groups")
    clock_us: int = field(name="clock_us")
    late: int = field(name="late")
    unfilled: int = field(name="unfilled")

    @property
    def snapshot_fields(self) -> tuple[range, int, int, StepCounters]:
        """First fields of a snapshot of the step."""
        counts = StepCounters(self.late, self.unfilled)
        if isinstance(self.metrics, MetricsDocument):
            counts.metrics = MetricValues(self.metrics.counters, self.metrics.gauges)
        return range(*self.groups), self.key_groups, self.clock_us, counts


class StepDocument(StepHeader, tag_field="format", tag="frames"):
    """Document of all state of a subtask of a step."""

    states: dict[str, FrameStateDocument] = field(name="states")
