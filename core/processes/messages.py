"""The messages between the coordinator's process and a worker process, beside those of an attempt.

A worker process serves one attempt after the other. `AttemptMessage` names the attempt of a
message, so that late messages of an earlier attempt are recognised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from headrace.core.api.splits import SubtaskId
from headrace.core.api.state import Document
from headrace.core.api.taps import TapRequest
from headrace.core.coordination.messages import Deploy
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.pipeline.loader import PipelineInputs
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """The description of a worker process and of its job: the first message to it."""

    number: int
    """The number of the worker, from 1."""
    inputs: PipelineInputs
    """The pipeline, from which the worker builds the plan."""
    job_id: str
    state_folder: str
    """The folder for the state of this process alone; what is in it is removed."""
    bounds: ChannelBounds
    checkpoint_folder: str | None
    """The folder of the job's checkpoints; None: none are taken."""


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """The event that a worker process has read the pipeline, and can start its first attempt."""


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """The command to open a worker's part of an attempt.

    A stream to each of the `peers` comes with the message, in that order.
    """

    attempt: int
    parallelism: Mapping[str, int]
    """The number of subtasks of each part of the plan."""
    placement: Mapping[SubtaskId, int]
    """The worker of each subtask."""
    worker_count: int
    peers: tuple[int, ...]
    deploy: Deploy
    """The subtasks of this worker, and the restored state."""
    is_aligned: bool
    migrated_steps: frozenset[str] = frozenset()
    descriptions: Mapping[str, Document] = field(default_factory=dict)
    """The descriptions for the worker's halves of connectors, by part."""


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """The event that all subtasks of a worker are deployed."""


@dataclass(frozen=True, slots=True)
class AttemptRejected:
    """The event that an attempt could not be started: the error that says why."""

    error: Exception


@dataclass(frozen=True, slots=True)
class SetTaps:
    """The command to sample the rows of these streams, and no others."""

    requests: tuple[TapRequest, ...]


@dataclass(frozen=True, slots=True)
class UserNotice:
    """A line of information for the user."""

    line: str


@dataclass(frozen=True, slots=True)
class ConnectorRequest:
    """The request of a worker's half of a connector to the coordinator's half."""

    number: int
    """The number of the request, by which its reply is recognised."""
    part: str
    document: Document


@dataclass(frozen=True, slots=True)
class ConnectorReply:
    """The reply to a request of a connector: a document, or the error with which it failed."""

    number: int
    document: Document | None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class AttemptMessage:
    """A message and the attempt that it belongs to."""

    attempt: int
    message: object
