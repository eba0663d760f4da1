"""The connections between the workers of an attempt."""

import asyncio
import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.connectors.memory import InMemoryData
from headrace.core.api.failures import ConnectorError
from headrace.core.coordination.messages import Deploy
from headrace.core.exchange.stream_end import (
    MAX_PASSED_ENDS,
    SocketEnd,
    StreamEnd,
    open_socket_pair,
)
from headrace.core.pipeline.settings import MAX_WORKERS
from headrace.core.processes.process_pool import ProcessPool
from headrace.core.worker.pool import WorkerSpec
from tests.support.runtime.memory_pipelines import plan_of

PIPELINE = """\
settings: {parallelism: 4}
sources: {rows: {memory: {data: in}, schema: {k: bigint}}}
steps: {counts: {from: rows, key: k, aggregate: {n: count(*)}}}
sinks: {out: {from: counts, memory: {data: out}}}
"""


def test_each_worker_can_be_connected_to_all_others() -> None:
    assert MAX_WORKERS - 1 <= MAX_PASSED_ENDS


def test_workers_for_whose_connections_files_are_lacking_are_rejected(tmp_path: Path) -> None:
    ends: list[StreamEnd] = []

    def open_pair() -> tuple[SocketEnd, SocketEnd]:
        if len(ends) == 6:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        pair = open_socket_pair()
        ends.extend(pair)
        return pair

    plan = plan_of(tmp_path, PIPELINE, {"memory": InMemoryData({}).build_connector()})
    spec = cast("WorkerSpec", SimpleNamespace(plan=plan, attempt=1))
    workers = cast("Any", dict.fromkeys(range(1, 5)))
    pool = ProcessPool(spec, cast("Any", None), print, workers, {}, cast("Any", None), open_pair)
    with pytest.raises(ConnectorError, match="4 workers cannot be connected: Too many open files"):
        asyncio.run(pool.receive(Deploy(1, ())))
    assert [end.is_closed for end in ends] == [True] * 6
