"""A job and its broker, killed anywhere: a reader sees each row once.

Many more kills: `python -m tests.support.kafka.kill 200`; with up to three worker processes, which
are killed and stopped as well: `python -m tests.support.kafka.kill 200 0 3`.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.support.kafka.broker import Broker
from tests.support.kafka.failpoints import POINTS
from tests.support.kafka.kill import Fired, fire

GOING_BACK = {"returning", "returned"}
"""Points of a return to an older checkpoint, which tests/recovery/test_missing_manifests asks for.

Here it would take place only when a job happens to fail just after a manifest.
"""


def test_a_job_and_a_broker_that_are_killed_at_any_instant_give_each_row_once(
    tmp_path: Path,
) -> None:
    fire(tmp_path, 7, 5)


def test_a_job_between_topics_whose_processes_are_killed_and_stopped_gives_each_row_once(
    tmp_path: Path,
) -> None:
    fire(tmp_path, 2, 2, workers=3)


def test_a_job_that_is_killed_at_each_step_gives_each_row_once(
    tmp_path: Path, broker: Broker, fresh: Callable[..., str]
) -> None:
    """A failpoint that a start passes only with handles to commit is reached after a manifest."""
    fired = Fired(tmp_path, Random(0), broker, name=fresh("fired"))
    try:
        for at, point in enumerate(each for each in POINTS if each not in GOING_BACK):
            if point.endswith(" again"):
                fired.die_again(point)
            else:
                fired.die(f"{point}:{1 + at % 2}")
        fired.finish()
    finally:
        fired.close()
