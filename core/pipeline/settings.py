"""The `settings:` of a pipeline; the docs and the schema take every default from here.

A setting in this file is checked. As long as it has no effect, its use is a warning: `NOT_ACTING`
lists such settings.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from headrace.core.addresses import WANTED, NoAddress, address
from headrace.core.pipeline.fields import Variants
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    Duration,
    Reads,
    Size,
    Unfit,
    choice,
    duration,
    number,
    whole,
)

NOT_ACTING: tuple[str, ...] = ()
"""Settings (dotted paths) that are checked, but have no effect yet."""

LATER = ("workers",)
"""Settings that are planned, and not in this file yet."""

MAX_KEY_GROUPS = 32768


def _positive(text: Text) -> timedelta:
    length = duration.parse(text)
    assert isinstance(length, timedelta)
    if not length:
        raise Unfit(wanted="a duration longer than 0s")
    return length


STRATEGY = choice("exponential", "fixed", "failure_rate", "none")
positive = Reads(duration.wanted, _positive, duration.json)
interval = Reads(
    "a duration such as 10s, or never",
    lambda text: None if text == "never" else _positive(text),
    {"anyOf": [{"const": "never"}, duration.json]},
)


def _remote(text: Text) -> str:
    try:
        return address(text.reveal()).url
    except NoAddress as error:
        text.secret |= error.is_secret
        raise Unfit(error.hint) from None


remote = Reads(WANTED, _remote)


class Checkpoint(Part):
    """The checkpoints of the job, which make its state durable."""

    every: Annotated[timedelta | None, interval] = Field(
        timedelta(seconds=10), description="The time between two checkpoints; `never` takes none."
    )
    retain: Annotated[int, whole(1, 1000)] = Field(
        3, description="The number of completed checkpoints that are retained."
    )
    mode: Annotated[Literal["aligned", "at_least_once"], choice("aligned", "at_least_once")] = (
        Field(
            "aligned",
            description="`aligned` makes state exact; with `at_least_once` no input waits for "
            "another, and rows may be counted twice after a failure.",
        )
    )
    timeout: Annotated[timedelta, positive] = Field(
        timedelta(minutes=10), description="A checkpoint that takes longer fails."
    )
    min_pause: Duration = Field(
        timedelta(), description="The shortest time from the end of one checkpoint to the next."
    )
    tolerable_failures: Annotated[int, whole(0, 1000)] = Field(
        3, description="How many checkpoints in a row may fail before the job fails."
    )
    dir: Annotated[str | None, remote] = Field(
        None,
        description="Where checkpoints are stored: `s3://bucket/path`, `gs://bucket/path` or "
        "`az://container/path`; by default in the job's home.",
    )


class State(Part):
    """The backend that holds keyed state while the job runs; checkpoints include all state."""

    memory: Size = Field(
        256 * 2**20, description="Memory for the state of all steps; the rest goes to disk."
    )
    backend: Annotated[Literal["rocksdb", "memory"], choice("rocksdb", "memory")] = Field(
        "rocksdb",
        description="`rocksdb` moves state beyond `memory` to disk; `memory` holds all state in "
        "memory, whatever its size.",
    )


class NoRestart(Part):
    """The first failure ends the job."""

    strategy: Annotated[Literal["none"], STRATEGY] = Field(
        "none", description="What happens after a failure."
    )


class FixedRestart(Part):
    """A limited number of restarts, with a fixed delay."""

    strategy: Annotated[Literal["fixed"], STRATEGY] = Field(
        "fixed", description="What happens after a failure."
    )
    attempts: Annotated[int, whole(1)] = Field(3, description="How often the job is restarted.")
    delay: Duration = Field(timedelta(seconds=10), description="The delay before each restart.")


class ExponentialRestart(Part):
    """Unlimited restarts, with growing delays."""

    strategy: Annotated[Literal["exponential"], STRATEGY] = Field(
        "exponential", description="What happens after a failure."
    )
    first: Annotated[timedelta, positive] = Field(
        timedelta(seconds=1), description="The delay before the first restart."
    )
    max: Annotated[timedelta, positive] = Field(
        timedelta(seconds=60), description="The longest delay before a restart."
    )
    factor: Annotated[float, number(1)] = Field(
        1.5, description="The factor by which the delay grows from one restart to the next."
    )
    jitter: Annotated[float, number(0, 1)] = Field(
        0.1,
        description="The random share of the delay, so that jobs do not all restart at once.",
    )
    healthy_after: Annotated[timedelta, positive] = Field(
        timedelta(minutes=10),
        description="How long an attempt must run without a failure to reset the delay to `first`.",
    )


class FailureRateRestart(Part):
    """Restarts until failures are too frequent."""

    strategy: Annotated[Literal["failure_rate"], STRATEGY] = Field(
        "failure_rate", description="What happens after a failure."
    )
    failures: Annotated[int, whole(1)] = Field(
        3, description="The number of failures `within` that ends the job."
    )
    within: Annotated[timedelta, positive] = Field(
        timedelta(minutes=5), description="The period in which failures are counted."
    )
    delay: Duration = Field(timedelta(seconds=10), description="The delay before each restart.")


Restart: TypeAlias = NoRestart | FixedRestart | ExponentialRestart | FailureRateRestart
RESTARTS: dict[str, type[Part]] = {
    "exponential": ExponentialRestart,
    "fixed": FixedRestart,
    "failure_rate": FailureRateRestart,
    "none": NoRestart,
}


class Buffer(Part):
    """The buffer between two subtasks."""

    rows: Annotated[int, whole(1)] = Field(8192, description="The number of rows a channel holds.")
    timeout: Duration = Field(
        timedelta(), description="How long a source waits for more rows before it sends a batch."
    )


class Settings(Part):
    """The way the job runs; no setting changes the meaning of its rows."""

    parallelism: Annotated[int, whole(1, MAX_KEY_GROUPS)] = Field(
        1, description="Subtasks of each step; a step can set its own. At most `key_groups`."
    )
    key_groups: Annotated[int, whole(1, MAX_KEY_GROUPS)] = Field(
        128, description="The number of groups of keys; fixed for the lifetime of the state."
    )
    checkpoint: Checkpoint = Field(
        Checkpoint(), description="The checkpoints of the job, which make its state durable."
    )
    state: State = Field(State(), description="Where keyed state is while the job runs.")
    restart: Annotated[Restart, Variants("strategy", RESTARTS, "exponential")] = Field(
        ExponentialRestart(), description="What happens after a failure."
    )
    buffer: Buffer = Field(Buffer(), description="The buffer between two subtasks.")
