"""The states of a job, without a clock and without attempts."""

from __future__ import annotations

import itertools

import pytest

from headrace.core.api.splits import Failure
from headrace.core.job.lifecycle import JobLifecycle

FAILED = Failure("no folder", "s")


def running(*, is_restored: bool = False) -> JobLifecycle:
    """Return the lifecycle of a job whose subtasks run."""
    job = JobLifecycle()
    job.start_attempt(is_restored=is_restored)
    assert not job.deploy()
    return job


def status_of(job: JobLifecycle) -> str:
    """Return the status, as a type that events may have changed."""
    return job.status


def switching() -> JobLifecycle:
    """Return the lifecycle of a job between two plans."""
    job = running()
    job.pause_sources()
    job.end_attempt("stopped")
    job.start_attempt(is_restored=True)
    return job


def restarting() -> JobLifecycle:
    """Return the lifecycle of a job that waits to restart."""
    job = running()
    assert job.fail_attempt(FAILED) == "restart"
    job.wait_to_restart(FAILED)
    return job


def test_a_job_starts_and_ends_with_its_input() -> None:
    job = JobLifecycle()
    assert status_of(job) == "starting"
    job.start_attempt(is_restored=True)
    assert status_of(job) == "restoring"
    job.deploy()
    assert status_of(job) == "running"
    job.end_attempt("complete")
    assert (job.status, job.is_stopped, job.failure) == ("over", False, None)


@pytest.mark.parametrize(("drain", "status"), [(False, "stopping"), (True, "draining")])
def test_a_stop_ends_the_job(drain: bool, status: str) -> None:
    job = running()
    job.request_stop(drain=drain)
    assert status_of(job) == status
    job.request_stop(drain=not drain)  # the first request decides
    assert status_of(job) == status
    job.end_attempt("drained" if drain else "stopped")
    assert (job.status, job.is_stopped) == ("over", True)
    assert job.attempt_end == ("drained" if drain else "stopped")


def test_a_stop_that_comes_too_late_stops_nothing() -> None:
    job = running()
    job.request_stop(drain=False)
    job.end_attempt("complete")
    assert (job.is_over, job.is_stopped) == (True, False)


def test_a_failed_job_restarts() -> None:
    job = restarting()
    assert (job.status, job.failure) == ("restarting", FAILED)
    job.resume()
    assert (job.state, job.failure) == ("starting", None)
    job.start_attempt(is_restored=True)
    assert status_of(job) == "restoring"


def test_a_job_without_restarts_left_is_over() -> None:
    job = running()
    assert job.fail_attempt(FAILED) == "restart"
    job.give_up(FAILED)
    assert (job.status, job.failure, job.is_stopped) == ("over", FAILED, False)


def test_a_failure_while_stopping_ends_the_job() -> None:
    job = running()
    job.request_stop(drain=True)
    assert job.fail_attempt(FAILED) == "end"
    assert (job.status, job.failure, job.is_stopped) == ("over", FAILED, False)


@pytest.mark.parametrize(("drain", "status"), [(False, "stopping"), (True, "draining")])
def test_a_stop_during_which_a_worker_is_lost_is_repeated_once(drain: bool, status: str) -> None:
    lost = Failure("worker 1 was lost", "workers", is_worker_lost=True)
    job = running()
    job.request_stop(drain=drain)
    assert job.fail_attempt(lost) == "restart"
    job.wait_to_restart(lost)
    job.resume()
    job.start_attempt(is_restored=True)
    assert (job.state, job.status) == ("starting", status)
    job.deploy()
    assert job.fail_attempt(lost) == "end"
    assert (job.status, job.failure, job.is_stopped) == ("over", lost, False)


def test_a_job_that_waits_to_restart_is_stopped_at_once() -> None:
    job = restarting()
    job.request_stop(drain=False)
    assert status_of(job) == "restarting"
    job.resume()
    assert (job.status, job.is_stopped, job.failure) == ("over", True, None)


def test_a_job_to_be_drained_restarts_first() -> None:
    job = restarting()
    job.request_stop(drain=True)
    job.resume()
    assert (job.state, job.status) == ("starting", "draining")


def test_a_rescale_leads_from_one_plan_to_the_other() -> None:
    job = running()
    job.pause_sources()
    assert status_of(job) == "rescaling"
    job.end_attempt("stopped")
    assert (job.state, job.status) == ("switching", "rescaling")
    job.start_attempt(is_restored=True)
    assert status_of(job) == "rescaling"
    assert job.deploy()
    assert status_of(job) == "running"


def test_a_stop_during_a_rescale_ends_the_job_with_its_checkpoint() -> None:
    job = running()
    job.pause_sources()
    job.request_stop(drain=False)
    job.end_attempt("stopped")
    assert (job.status, job.is_stopped) == ("over", True)


def test_a_job_to_be_drained_completes_its_rescale() -> None:
    job = running()
    job.pause_sources()
    job.request_stop(drain=True)
    job.end_attempt("stopped")
    assert job.state == "switching"
    assert job.deploy()
    assert status_of(job) == "draining"


@pytest.mark.parametrize("end", ["complete", "drained"])
def test_a_job_with_nothing_left_to_read_is_not_rescaled(end: str) -> None:
    job = running()
    job.pause_sources()
    job.end_attempt("drained" if end == "drained" else "complete")
    assert job.is_over


def test_an_attempt_of_the_new_plan_that_fails_goes_back_at_once() -> None:
    job = switching()
    assert job.fail_attempt(FAILED) == "revert"
    assert (job.state, job.failure) == ("starting", None)


def test_a_stopped_job_goes_back_but_runs_no_more() -> None:
    job = switching()
    job.request_stop(drain=False)
    assert job.fail_attempt(FAILED) == "revert"
    assert (job.status, job.is_stopped, job.failure) == ("over", True, None)


def test_a_failure_before_the_switch_is_one_of_the_old_plan() -> None:
    job = running()
    job.pause_sources()
    assert job.fail_attempt(FAILED) == "restart"
    job.wait_to_restart(FAILED)
    assert status_of(job) == "restarting"
    job.pause_sources()  # of an attempt that has failed meanwhile
    assert status_of(job) == "restarting"


def test_no_events_lead_out_of_the_end_or_to_two_ends() -> None:
    """Try all short sequences: `over` is final until a new attempt, and says how it came."""
    events = {
        "deploy": lambda job: job.deploy(),
        "pause": lambda job: job.pause_sources(),
        "stop": lambda job: job.request_stop(drain=False),
        "drain": lambda job: job.request_stop(drain=True),
        "end": lambda job: job.end_attempt("stopped"),
        "fail": fail_and_restart,
    }
    for names in itertools.product(events, repeat=5):
        job = JobLifecycle()
        job.start_attempt(is_restored=False)
        for name in names:
            if job.is_over and name in ("end", "fail"):
                break  # no attempt runs
            was_over = job.is_over
            events[name](job)
            assert job.is_over or not was_over, names
        if job.is_over:
            assert job.is_stopped == (job.failure is None), names
            assert job.failure is None or job.stop_request, names


def fail_and_restart(job: JobLifecycle) -> None:
    """Fail an attempt, and wait for the next one if there is one."""
    if job.fail_attempt(FAILED) == "restart":
        job.wait_to_restart(FAILED)
        job.resume()
