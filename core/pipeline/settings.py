"""The `settings:` of a pipeline; the docs and the schema take every default from here.

A setting in this file is checked. As long as it has no effect, its use is a warning:
`INACTIVE_SETTINGS` lists such settings.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, TypeAlias

from headrace.core.api.storage_url import URL_FORMS, InvalidStorageUrl, parse_storage_url
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import VariantsReading
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    Duration,
    InvalidScalar,
    ScalarReading,
    Size,
    choice_of,
    decimal_number,
    duration,
    positive_duration,
    whole_number,
)

INACTIVE_SETTINGS: tuple[str, ...] = ()
"""Settings (dotted paths) that are checked, but have no effect yet."""

MAX_KEY_GROUPS = 32768
MAX_WORKERS = 254
"""Each worker gets connections to all others in one message, which holds 253."""
AUTO_WORKERS = 0
"""`workers: auto`, until `worker_choice` has chosen the number."""


STRATEGY_READING = choice_of("exponential", "fixed", "failure_rate", "none")
interval_reading = ScalarReading(
    "a duration such as 10s, or never",
    lambda text: None if text == "never" else positive_duration.parse(text),
    {"anyOf": [{"const": "never"}, duration.json]},
)


workers_reading = ScalarReading(
    "a whole number from 1 to 254, or auto",
    lambda text: AUTO_WORKERS if text == "auto" else whole_number(1, MAX_WORKERS).parse(text),
    {"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": MAX_WORKERS}]},
)


def _parse_remote_address(text: Text) -> str:
    try:
        return parse_storage_url(text.reveal()).url
    except InvalidStorageUrl as error:
        text.secret |= error.is_secret
        raise InvalidScalar(error.hint) from None


remote_address = ScalarReading(URL_FORMS, _parse_remote_address)


class Checkpoint(DocumentModel):
    """The checkpoints of the job, which make its state durable."""

    every: Annotated[timedelta | None, interval_reading] = Field(
        timedelta(seconds=10), description="The time between two checkpoints; `never` takes none."
    )
    retain: Annotated[int, whole_number(1, 1000)] = Field(
        3, description="The number of completed checkpoints that are retained."
    )
    mode: Annotated[Literal["aligned", "at_least_once"], choice_of("aligned", "at_least_once")] = (
        Field(
            "aligned",
            description="`aligned` makes state exact; with `at_least_once` no input waits for "
            "another, and rows may be counted twice after a failure.",
        )
    )
    timeout: Annotated[timedelta, positive_duration] = Field(
        timedelta(minutes=10), description="A checkpoint that takes longer fails."
    )
    min_pause: Duration = Field(
        timedelta(), description="The shortest time from the end of one checkpoint to the next."
    )
    tolerable_failures: Annotated[int, whole_number(0, 1000)] = Field(
        3, description="How many checkpoints in a row may fail before the job fails."
    )
    dir: Annotated[str | None, remote_address] = Field(
        None,
        description="Where checkpoints are stored: `s3://bucket/path`, `gs://bucket/path` or "
        "`az://container/path`; by default in the job's home.",
    )


class State(DocumentModel):
    """The backend that holds keyed state while the job runs; checkpoints include all state."""

    memory: Size = Field(
        256 * 2**20, description="Memory for the state of all steps; the rest goes to disk."
    )
    backend: Annotated[Literal["rocksdb", "memory"], choice_of("rocksdb", "memory")] = Field(
        "rocksdb",
        description="`rocksdb` moves state beyond `memory` to disk; `memory` holds all state in "
        "memory, whatever its size.",
    )


class NoRestart(DocumentModel):
    """The first failure ends the job."""

    strategy: Annotated[Literal["none"], STRATEGY_READING] = Field(
        "none", description="What happens after a failure."
    )


class FixedRestart(DocumentModel):
    """A limited number of restarts, with a fixed delay."""

    strategy: Annotated[Literal["fixed"], STRATEGY_READING] = Field(
        "fixed", description="What happens after a failure."
    )
    attempts: Annotated[int, whole_number(1)] = Field(
        3, description="How often the job is restarted."
    )
    delay: Duration = Field(timedelta(seconds=10), description="The delay before each restart.")


class ExponentialRestart(DocumentModel):
    """Unlimited restarts, with growing delays."""

    strategy: Annotated[Literal["exponential"], STRATEGY_READING] = Field(
        "exponential", description="What happens after a failure."
    )
    first: Annotated[timedelta, positive_duration] = Field(
        timedelta(seconds=1), description="The delay before the first restart."
    )
    max: Annotated[timedelta, positive_duration] = Field(
        timedelta(seconds=60), description="The longest delay before a restart."
    )
    factor: Annotated[float, decimal_number(1)] = Field(
        1.5, description="The factor by which the delay grows from one restart to the next."
    )
    jitter: Annotated[float, decimal_number(0, 1)] = Field(
        0.1,
        description="The random share of the delay, so that jobs do not all restart at once.",
    )
    healthy_after: Annotated[timedelta, positive_duration] = Field(
        timedelta(minutes=10),
        description="How long an attempt must run without a failure to reset the delay to `first`.",
    )


class FailureRateRestart(DocumentModel):
    """Restarts until failures are too frequent."""

    strategy: Annotated[Literal["failure_rate"], STRATEGY_READING] = Field(
        "failure_rate", description="What happens after a failure."
    )
    failures: Annotated[int, whole_number(1)] = Field(
        3, description="The number of failures `within` that ends the job."
    )
    within: Annotated[timedelta, positive_duration] = Field(
        timedelta(minutes=5), description="The period in which failures are counted."
    )
    delay: Duration = Field(timedelta(seconds=10), description="The delay before each restart.")


Restart: TypeAlias = NoRestart | FixedRestart | ExponentialRestart | FailureRateRestart
RESTART_MODELS: dict[str, type[DocumentModel]] = {
    "exponential": ExponentialRestart,
    "fixed": FixedRestart,
    "failure_rate": FailureRateRestart,
    "none": NoRestart,
}


class Buffer(DocumentModel):
    """The buffer between two subtasks."""

    rows: Annotated[int, whole_number(1)] = Field(
        65536, description="The rows that a channel holds, and the most rows of a source's batch."
    )
    bytes: Size = Field(
        16 * 2**20, description="The memory that the rows of a channel take; one row may take more."
    )
    timeout: Duration = Field(
        timedelta(), description="How long a source waits for more rows before it sends a batch."
    )


class Settings(DocumentModel):
    """The way the job runs; no setting but `seed` changes the meaning of its rows."""

    parallelism: Annotated[int, whole_number(1, MAX_KEY_GROUPS)] = Field(
        1, description="Subtasks of each step; a step can set its own. At most `key_groups`."
    )
    workers: Annotated[int, workers_reading] = Field(
        1,
        description="Processes that run the subtasks; `auto` is as many as pay for the pipeline "
        "on this machine. Without `parallelism`, each step has as many subtasks.",
    )
    key_groups: Annotated[int, whole_number(1, MAX_KEY_GROUPS)] = Field(
        128, description="The number of groups of keys; fixed for the lifetime of the state."
    )
    checkpoint: Checkpoint = Field(
        Checkpoint(), description="The checkpoints of the job, which make its state durable."
    )
    state: State = Field(State(), description="Where keyed state is stored while the job runs.")
    restart: Annotated[Restart, VariantsReading("strategy", RESTART_MODELS, "exponential")] = Field(
        ExponentialRestart(), description="What happens after a failure."
    )
    buffer: Buffer = Field(Buffer(), description="The buffer between two subtasks.")
    latency_markers: Annotated[timedelta | None, interval_reading] = Field(
        None,
        description="The time between two markers that measure the latency from sources to sinks; "
        "`never` sends none.",
    )
    seed: Annotated[int, whole_number(0)] = Field(
        0, description="A different seed gives `rand`, `uuid` and the like different values."
    )
    max_value: Size = Field(
        64 * 2**20,
        description="The largest value that a function such as `repeat` makes of its arguments; at "
        "a larger one, the row fails as `on_error` of the step says.",
    )
    max_record: Size = Field(
        256 * 2**20,
        description="The largest record of a text file or of standard input, and the most memory "
        "that a page of a Parquet file may take; at a larger one, the job fails.",
    )
