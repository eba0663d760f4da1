"""Splits of a source, how far they have been read, and handles of prepared output.

All of these are plain data, because checkpoints store them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from headrace.core.types.lazy_dataclass import dataclass

Position: TypeAlias = "int | str | None"
"""The position in a split where reading resumes: plain data, because it is stored."""


Handle: TypeAlias = "Mapping[str, object]"
"""The data with which a sink commits or aborts prepared output: plain, because it is stored."""


@dataclass(frozen=True, slots=True, order=True)
class SubtaskId:
    """The id of a subtask: the number of its task in the plan, and its index in the task."""

    task: int
    index: int


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a source that one reader reads in order.

    `number` is the rank of the split in the order in which the splits of its source were
    discovered. It is set when the split is assigned and never changes. `start_position` is the
    position at which reading begins when no checkpoint has one.
    """

    source: str
    name: str
    number: int = field(default=0, compare=False)
    start_position: Position = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of reading a split: the position to resume from, and the counts up to it."""

    position: Position = None
    watermark_us: int | None = None
    """The watermark of the split; None until one of its rows had an event time."""
    rows: int = 0
    """The number of rows read, where rows are ordered by it."""
    bad_records: int = 0
    """The number of bad records."""
    is_finished: bool = False
    identity: str | None = None
    """The identity of what was read up to the position, in the source's terms; None: unknown."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a subtask failed, as it is reported to the user once."""

    message: str
    step: str
    split: str | None = None
    position: Position = None
    hint: str = ""
    traceback: str = ""
    """The traceback if the cause is a bug in headrace rather than the data or user code."""
    is_transient: bool = False
    """Whether the failure is external, concerns no position in the data, and may be transient."""
    is_final: bool = False
    """Whether another attempt would fail in the same way."""
    raise_site: str = ""
    """The type of the exception and the line that raised it: the same for every row."""
    is_worker_lost: bool = False
    """Whether the process of a worker is gone, which says nothing about the job itself."""
