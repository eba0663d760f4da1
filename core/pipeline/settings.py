"""The `settings:` of a pipeline; every default is here, and so in the docs and the schema.

A setting is checked from the day it is in this file. Until something acts on it, its use earns a
warning: `NOT_ACTING` names those, and each issue that builds one takes its line away.
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
"""Settings (dotted paths) that are checked, but that nothing acts on yet."""

LATER = ("workers",)
"""Settings that are decided, and not in this file yet."""

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
    """When and how the state of a job is made durable."""

    every: Annotated[timedelta | None, interval] = Field(
        timedelta(seconds=10), description="Time between two checkpoints; `never` takes none."
    )
    retain: Annotated[int, whole(1, 1000)] = Field(
        3, description="How many completed checkpoints are kept."
    )
    mode: Annotated[Literal["aligned", "at_least_once"], choice("aligned", "at_least_once")] = (
        Field(
            "aligned",
            description="`aligned` makes state exact; `at_least_once` makes no input wait for "
            "another, and may count rows twice after a failure.",
        )
    )
    timeout: Annotated[timedelta, positive] = Field(
        timedelta(minutes=10), description="A checkpoint that takes longer has failed."
    )
    min_pause: Duration = Field(
        timedelta(), description="The least time from the end of one checkpoint to the next."
    )
    tolerable_failures: Annotated[int, whole(0, 1000)] = Field(
        3, description="How many checkpoints in a row may fail before the job does."
    )
    dir: Annotated[str | None, remote] = Field(
        None,
        description="Where checkpoints are kept: `s3://bucket/path`, `gs://bucket/path` or "
        "`az://container/path`; by default in the job's home.",
    )


class State(Part):
    """Where keyed state lives while the job runs; checkpoints keep it in any case."""

    memory: Size = Field(
        256 * 2**20, description="Memory for state, of all steps together; more goes to disk."
    )
    backend: Annotated[Literal["rocksdb", "memory"], choice("rocksdb", "memory")] = Field(
        "rocksdb",
        description="`rocksdb` keeps on disk what is over `memory`; `memory` keeps all of it in "
        "memory, however much that is.",
    )


class NoRestart(Part):
    """The first failure ends the job."""

    strategy: Annotated[Literal["none"], STRATEGY] = Field(
        "none", description="What happens after a failure."
    )


class FixedRestart(Part):
    """A number of attempts, the same time apart."""

    strategy: Annotated[Literal["fixed"], STRATEGY] = Field(
        "fixed", description="What happens after a failure."
    )
    attempts: Annotated[int, whole(1)] = Field(3, description="How often the job is restarted.")
    delay: Duration = Field(timedelta(seconds=10), description="The time before each restart.")


class ExponentialRestart(Part):
    """Attempts without end, further and further apart."""

    strategy: Annotated[Literal["exponential"], STRATEGY] = Field(
        "exponential", description="What happens after a failure."
    )
    first: Annotated[timedelta, positive] = Field(
        timedelta(seconds=1), description="The time before the first restart."
    )
    max: Annotated[timedelta, positive] = Field(
        timedelta(seconds=60), description="The longest time before a restart."
    )
    factor: Annotated[float, number(1)] = Field(
        1.5, description="By how much the time grows from one restart to the next."
    )
    jitter: Annotated[float, number(0, 1)] = Field(
        0.1, description="The part of the time that is random, so that jobs do not restart at once."
    )
    healthy_after: Annotated[timedelta, positive] = Field(
        timedelta(minutes=10), description="After so long without a failure it starts from `first`."
    )


class FailureRateRestart(Part):
    """Restarts until failures come too often."""

    strategy: Annotated[Literal["failure_rate"], STRATEGY] = Field(
        "failure_rate", description="What happens after a failure."
    )
    failures: Annotated[int, whole(1)] = Field(
        3, description="How many failures `within` end the job."
    )
    within: Annotated[timedelta, positive] = Field(
        timedelta(minutes=5), description="The time in which failures are counted."
    )
    delay: Duration = Field(timedelta(seconds=10), description="The time before each restart.")


Restart: TypeAlias = NoRestart | FixedRestart | ExponentialRestart | FailureRateRestart
RESTARTS: dict[str, type[Part]] = {
    "exponential": ExponentialRestart,
    "fixed": FixedRestart,
    "failure_rate": FailureRateRestart,
    "none": NoRestart,
}


class Buffer(Part):
    """What may wait between two subtasks."""

    rows: Annotated[int, whole(1)] = Field(8192, description="Rows that a channel holds.")
    timeout: Duration = Field(
        timedelta(), description="How long a source waits for more rows before it sends a batch."
    )


class Settings(Part):
    """How the job runs; nothing here changes what its rows mean."""

    parallelism: Annotated[int, whole(1, MAX_KEY_GROUPS)] = Field(
        1, description="Subtasks of each step; a step may say its own. At most `key_groups`."
    )
    key_groups: Annotated[int, whole(1, MAX_KEY_GROUPS)] = Field(
        128, description="Into how many groups keys are divided; fixed for the life of the state."
    )
    checkpoint: Checkpoint = Field(
        Checkpoint(), description="When and how the state of a job is made durable."
    )
    state: State = Field(State(), description="Where keyed state lives while the job runs.")
    restart: Annotated[Restart, Variants("strategy", RESTARTS, "exponential")] = Field(
        ExponentialRestart(), description="What happens after a failure."
    )
    buffer: Buffer = Field(Buffer(), description="What may wait between two subtasks.")
