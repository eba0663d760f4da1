"""The entry point of a worker process.

`python -m headrace.cli.worker_process PARENT CONTROL LIFELINE` is started by the coordinator of a
job with several workers, never by a user. The arguments are the id of the coordinator's process and
two descriptors; all else comes as messages.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import sys
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.core.api.kernel_executor import KernelExecutor
    from headrace.core.api.snapshots import SnapshotStore
    from headrace.core.dataflow.operator_factory import OperatorContext
    from headrace.core.pipeline.loader import LoadedPipeline
    from headrace.core.plan.nodes import Plan
    from headrace.core.processes.messages import WorkerSetup
    from headrace.core.processes.server import WorkerEnvironment
    from headrace.state.storage.leftover_files import LeftoverFiles


def main() -> None:
    """Serve the coordinator until it is gone."""
    parent, control, lifeline = map(int, sys.argv[1:])
    _ignore_signals()
    gc.disable()  # during the start, where it takes a tenth of the time in vain
    from headrace.core.api.forked_children import withhold_descriptor
    from headrace.core.processes.lifeline import hold_lifeline

    for descriptor in (control, lifeline):
        # A child of user code that holds them would hide the end of this process.
        os.set_inheritable(descriptor, False)
        withhold_descriptor(descriptor)
    hold_lifeline(socket.socket(fileno=lifeline), parent)
    import asyncio

    import polars  # noqa: F401 - now, because it puts its hook on SIGINT

    _ignore_signals()
    asyncio.run(_serve(socket.socket(fileno=control)))


def _ignore_signals() -> None:
    """Ignore the signals of a terminal, which the children of user code shall not ignore."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: None)


async def _serve(end: socket.socket) -> None:
    from headrace.core.api.kernel_executor import open_executors
    from headrace.core.exchange.control_connection import ControlConnection
    from headrace.core.exchange.peer_lost import PeerLost
    from headrace.core.exchange.stream_end import SocketEnd
    from headrace.core.processes.messages import AttemptMessage, WorkerSetup
    from headrace.core.processes.server import WorkerServer

    control = ControlConnection(SocketEnd(end), peer="the coordinator")
    try:
        first = (await control.receive()).message
    except PeerLost:
        return
    assert isinstance(first, AttemptMessage)
    assert isinstance(first.message, WorkerSetup)
    with open_executors() as (executor, archive):
        environment = _build_environment(first.message, executor, archive)
        gc.freeze()
        gc.enable()
        await WorkerServer(control, environment).serve()


def _build_environment(
    setup: WorkerSetup, executor: KernelExecutor, archive: KernelExecutor
) -> WorkerEnvironment:
    from headrace.connectors.registry import REGISTRY
    from headrace.core.api.run_context import RunContext
    from headrace.core.pipeline.loader import reload_pipeline
    from headrace.core.processes.server import WorkerEnvironment
    from headrace.state.storage.leftover_files import LeftoverFiles
    from headrace.state.storage.local_disk import LocalDisk

    loaded = reload_pipeline(setup.inputs, REGISTRY)
    plan = rebuild_plan(loaded, {})
    dir, name = loaded.pipeline.settings.checkpoint.dir, str(plan.name)
    leftovers = LeftoverFiles(LocalDisk(), f"{setup.state_folder}-left")
    # A folder of checkpoints has links to the same files.
    keep_files = _keep_nothing if dir is None else leftovers.add
    _clear_state_folder(setup.state_folder, leftovers, keep_files)
    folder = setup.inputs.path.absolute().parent
    run_context = RunContext(
        folder, setup.job_id, executor, snapshot_executor=archive, pipeline_name=name
    )
    store = None
    if setup.checkpoint_folder is not None:
        store = _open_store(dir, name, setup.checkpoint_folder, setup.job_id, leftovers)
    return WorkerEnvironment(
        setup.number,
        partial(rebuild_plan, loaded),
        REGISTRY,
        run_context,
        partial(_build_operator_context, setup, loaded, plan, keep_files),
        setup.bounds,
        store,
        leftovers.clear,
    )


def _clear_state_folder(
    folder: str, leftovers: LeftoverFiles, keep_files: Callable[[str], None]
) -> None:
    """Remove what a process of the same number has left that was killed.

    It has rows that no checkpoint may have. Its files may be kept for the restore.
    """
    leftovers.clear()
    keep_files(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _keep_nothing(folder: str) -> None:
    """Let a folder of state be removed with all its files."""


def _build_operator_context(
    setup: WorkerSetup,
    loaded: LoadedPipeline,
    plan: Plan,
    keep_files: Callable[[str], None],
    attempt: int,
    worker_count: int,
) -> OperatorContext:
    """Return the context of the operators of an attempt, with its share of the memory for state."""
    from headrace.core.dataflow.operator_factory import OperatorContext
    from headrace.state.backends import open_backend

    state = loaded.pipeline.settings.state
    share = state.model_copy(update={"memory": state.memory // worker_count})
    # States of the attempt before may still be removing their folders.
    state_folder = os.path.join(setup.state_folder, str(attempt))
    return OperatorContext(
        lambda: time.time_ns() // 1000,
        setup.inputs.path.absolute().parent,
        frozenset(edge.stream for edge in plan.edges),
        open_backend(share, state_folder, keep_files),
    )


def _open_store(
    dir: str | None, name: str, folder: str, job_id: str, leftovers: LeftoverFiles
) -> SnapshotStore:
    """Open the checkpoints of a job in a bucket; `dir` is None: in a folder."""
    from headrace.state.storage.local_disk import LocalDisk

    if dir is None:
        from headrace.state.storage.local_store import WorkerSnapshotStore

        return WorkerSnapshotStore(LocalDisk(), folder, job_id)
    from headrace.core.api.storage_url import parse_storage_url
    from headrace.state.storage.remote.bucket import open_bucket
    from headrace.state.storage.remote.store import RemoteWorkerStore

    bucket = open_bucket(parse_storage_url(dir).child(name))
    return RemoteWorkerStore(bucket, job_id, LocalDisk(), leftovers)


def rebuild_plan(loaded: LoadedPipeline, parallelism: Mapping[str, int]) -> Plan:
    """Return the plan with these numbers of subtasks; it was valid in the coordinator."""
    from headrace.core.pipeline.parallelism import set_parallelism
    from headrace.core.plan.plan_assembly import build_plan

    of_sources = next((parallelism[name] for name in loaded.pipeline.sources if parallelism), None)
    pipeline = set_parallelism(loaded.pipeline, of_sources, parallelism)
    plan, problems = build_plan(replace(loaded, pipeline=pipeline))
    if plan is None:
        raise RuntimeError(f"the pipeline has become invalid: {problems[0].message}")
    return plan


if __name__ == "__main__":
    main()
