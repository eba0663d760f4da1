"""A savepoint that is written by a process of its own: whole, or not at all and with a reason."""

from pathlib import Path

import pytest

from headrace.cli.control.savepoint_export import SavepointAbandoned, export_savepoint
from headrace.core.api.snapshots import RefusedSnapshot, StoreError
from headrace.state.savepoints.savepoint import open_savepoint
from headrace.state.storage.home import Home
from tests.support.cli.controlled_jobs import running


@pytest.fixture
def stopped(tmp_path: Path) -> tuple[Home, int]:
    """The home of a job that was stopped, and its newest checkpoint."""
    with running(tmp_path) as job:
        job.until_read(10)
        home = job.home
    assert job.outcome is not None
    assert job.outcome.checkpoint is not None
    return home, job.outcome.checkpoint


def test_it_is_whole_and_says_how_far_it_has_come(stopped: tuple[Home, int]) -> None:
    told: list[tuple[int, int]] = []
    path = export_savepoint(*stopped_as(stopped), None, lambda done, of: told.append((done, of)))
    savepoint = open_savepoint(path)
    savepoint.verify()
    assert savepoint.number == stopped[1]
    assert told[0][0] == 0
    assert told[-1][0] == told[-1][1] > 0


def test_a_refusal_comes_as_that(stopped: tuple[Home, int], tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").touch()
    with pytest.raises(RefusedSnapshot) as refused:
        export_savepoint(*stopped_as(stopped), str(taken), lambda done, of: None)
    assert "taken" in refused.value.message
    assert [path.name for path in taken.iterdir()] == ["mine"]


def test_an_abandoned_export_ends_and_nothing_is_left(
    stopped: tuple[Home, int], tmp_path: Path
) -> None:
    def tell(done: int, of: int) -> None:
        raise SavepointAbandoned

    with pytest.raises(SavepointAbandoned):
        export_savepoint(*stopped_as(stopped), str(tmp_path / "saved" / "one"), tell)
    assert not list((tmp_path / "saved").iterdir())


def test_a_failed_export_process_is_reported_with_its_last_line(
    stopped: tuple[Home, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "polars.py").write_text("raise ImportError('no such luck')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    with pytest.raises(StoreError, match="no such luck"):
        export_savepoint(*stopped_as(stopped), None, lambda done, of: None)


def stopped_as(stopped: tuple[Home, int]) -> tuple[Home, str, int]:
    """As it is asked for."""
    home, number = stopped
    return home, "0.1.0", number
