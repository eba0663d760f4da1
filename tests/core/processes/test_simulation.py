"""Jobs with workers whose processes die, stop and lose their streams: each row is there once.

Thousands more: `python -m tests.core.processes.test_simulation 5000`; a seed that fails prints
what came over its job.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.exchange.remote_channel import ChannelReceiver
from headrace.core.exchange.wire_format import FrameKind, WireFrame
from headrace.core.processes.messages import AttemptMessage
from headrace.core.processes.worker_processes import WorkerLink, WorkerProcesses
from tests.support.runtime.simulated_pipelines import Workload
from tests.support.runtime.simulated_workers import (
    MOST_ROWS,
    SLOW_DELAYS_S,
    Fate,
    Simulation,
    Strike,
    check_seed,
)

SEEDS = 60


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_whatever_happens_to_processes_each_row_is_there_once(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        check_seed(seed, tmp_path)


@pytest.mark.parametrize(("seed", "break_s"), [(1, 12.0), (14, 12.0), (15, 12.0)])
def test_a_stream_that_breaks_when_all_is_sent_fails_the_attempt(
    tmp_path: Path, seed: int, break_s: float
) -> None:
    """Nobody writes to it any more, and its reader waits for what is lost."""
    simulation = Simulation(seed, tmp_path)
    simulation.streams.delays_s = (4.0,)
    simulation.run([Fate(strikes=[Strike("break", 1, None, break_s, 0.0)])])
    assert simulation.life == 1
    # Not that of a writer, which would name its step.
    assert [failure.step for failure in simulation.failures] == ["workers"]


def test_a_drain_that_a_worker_hears_of_after_the_end_of_its_inputs_keeps_states(
    tmp_path: Path,
) -> None:
    """The command travels on another stream than the end."""
    check_seed(11355, tmp_path)


def test_a_receiver_that_ignores_a_backlog_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = ChannelReceiver.receive

    def ignore_backlog(self: ChannelReceiver, frame: WireFrame) -> bool:
        return frame.kind != FrameKind.BACKLOG and receive(self, frame)

    def simulate() -> None:
        simulation = Simulation(1, tmp_path, Workload.of_unequal_batches())
        simulation.bounds = ChannelBounds(6)
        simulation.run([])

    monkeypatch.setattr("tests.support.runtime.simulated_workers.LIMIT_S", 60.0)
    simulate()
    monkeypatch.setattr(ChannelReceiver, "receive", ignore_backlog)
    with pytest.raises(TimeoutError):
        simulate()


def test_a_message_that_is_taken_for_one_of_a_later_attempt_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some messages are on their way for longer than the coordinator waits for subtasks to end.

    They arrive in a later attempt if that does not wait for the end of the worker that was killed.
    """

    def deliver_late(self: WorkerProcesses, link: WorkerLink, message: AttemptMessage) -> None:
        if self._pool is not None:
            self._pool.on_message(link.number, message.message)

    def simulate(seed: int) -> None:
        simulation = Simulation(seed, tmp_path)
        simulation.bounds, simulation.streams.delays_s = ChannelBounds(MOST_ROWS), SLOW_DELAYS_S
        kills = [(1, 20.0), (2, 45.0), (1, 75.0)]
        simulation.run([Fate(strikes=[Strike("kill", n, None, at, 0.0) for n, at in kills])])

    monkeypatch.setattr(WorkerLink, "is_ending", False)
    monkeypatch.setattr(WorkerProcesses, "_deliver", deliver_late)
    for seed in range(40):
        try:
            simulate(seed)
        except (AssertionError, TimeoutError):
            break
    else:
        pytest.fail("no seed has found it")
    monkeypatch.undo()
    simulate(seed)


def main(count: int, first: int = 0) -> None:
    """Check this number of seeds."""
    with TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            check_seed(seed, Path(folder))
            if (seed + 1) % 100 == 0:
                print(f"seed {seed}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
