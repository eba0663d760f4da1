"""The queries of TPC-H over tables that change have the rows that DuckDB has for the final tables.

`python -m benchmarks.tpch` does the same for the data of TPC-H, with kills and rescales.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks.tpch.pipelines import QUERIES, compute_rows, round_numbers, write_pipeline
from benchmarks.tpch.tables import find_rows, make_log
from headrace.connectors.memory import InMemoryData
from headrace.core.api.kernel_executor import KernelExecutor
from tests.support.runtime.committed_output import ended
from tests.support.runtime.memory_pipelines import cut, plan_of, run_plan
from tests.support.tpch import make_tables


def test_the_final_rows_of_all_queries_are_those_of_duckdb(tmp_path: Path) -> None:
    logs = {name: make_log(name, rows, seed=3) for name, rows in make_tables(4).items()}
    memory = InMemoryData({name: {"0": cut(log, 500)} for name, log in logs.items()})
    text = write_pipeline("tpch", QUERIES, "memory: {data: $}", "memory: {data: $}")
    plan = plan_of(tmp_path, text.partition("\n")[2], {"memory": memory.build_connector()})
    outcome = run_plan(tmp_path, plan, memory, KernelExecutor())
    assert outcome.failure is None, outcome.failure
    tables = {name: find_rows(name, log) for name, log in logs.items()}
    wrong = {}
    for query in QUERIES:
        stream = plan.streams[query]
        found = ended(memory, stream.kind, stream.schema.names, query)
        wanted = compute_rows(tables, query)
        assert wanted, query
        if Counter(map(round_numbers, found.elements())) != wanted:
            wrong[query] = (found, wanted)
    assert not wrong
