"""Queries over the state of a job, in a short process, so that the server need not load Polars.

The process reads a request from standard input, since texts of queries may hold values that nobody
else on this machine is to read on a command line. It reads the job's newest checkpoint, at a lower
priority than jobs, and prints what the state holds, or the rows of a query.

    echo '{"job": "orders", "home": ".headrace"}' | python -m headrace.cli.server.state_queries
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson

from headrace.cli.control.http_messages import RequestError
from headrace.cli.errors import Refusal
from headrace.cli.server.short_process import AnswerTooLarge, ShortProcess

if TYPE_CHECKING:
    from headrace.cli.state.snapshot_argument import OpenSnapshot
    from headrace.core.state_reader.step_states import StepStateReader

TIMEOUT_S = 120.0
NICE_INCREMENT = 5
MAX_ROWS = 500
MAX_ANSWER = 8 * 2**20
MAX_WAITING = 3
"""The queries that wait for another one."""

MAX_VALUE = 2**16
"""The largest value in bytes that a growing call of a query makes."""

MAX_MEMORY = 2 * 2**30
"""The memory of the process, in bytes. Polars and its threads take 250 MB of it."""

OOM_SCORE = 1000
"""Lets a system without memory end this process first, and no job or server."""

MAX_COUNTED_ROWS = 1_000_000
"""The rows of a state that are read to find its largest keys."""

LARGEST_KEYS = 5
HINT = "select less, or use headrace state"
MEMORY_SIGNALS = (-signal.SIGABRT, -signal.SIGKILL)
"""The ends of processes for which there was no memory: by its limit, or in the system."""

PROCESS = ShortProcess(__name__, MAX_ANSWER, TIMEOUT_S)


async def read_state(job: str, home: str, sql: str | None = None) -> bytes:
    """Return what the state of a job holds, or the rows of a query, as JSON.

    Raises RequestError.
    """
    if PROCESS.waiting >= MAX_WAITING:
        message = f"{PROCESS.waiting} other queries of state are waiting"
        raise RequestError(503, "busy", message, "try again later, or use headrace state")
    try:
        request = {"job": job, "home": home, "sql": sql, "max_memory": MAX_MEMORY}
        answer = await PROCESS.ask(request)
    except AnswerTooLarge as error:
        raise RequestError(422, "too_large", str(error), HINT) from None
    except TimeoutError:
        message = f"the query has taken more than {TIMEOUT_S:.0f} s"
        raise RequestError(503, "slow", message, HINT) from None
    if answer.status == 0:
        return answer.output
    if answer.status in MEMORY_SIGNALS:
        raise RequestError(422, "too_large", describe_memory(MAX_MEMORY), HINT)
    try:
        found = orjson.loads(answer.output)
    except ValueError:
        message = f"the process that reads state: {answer.failure}"
        raise RequestError(500, "failed", message) from None
    raise RequestError(found["status"], found["code"], found["message"], found["hint"])


def describe_memory(max_memory: int) -> str:
    """Return the error of a process that wanted more memory."""
    return f"the query needs more memory than its process may have, {max_memory >> 20:,} MiB"


def answer_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a request. Raises Refusal, SnapshotError, QueryError."""
    from headrace.cli.state.snapshot_argument import open_snapshot

    with open_snapshot(request["job"], request["home"]) as opened:
        if request["sql"] is None:
            return describe_state(opened)
        return query_state(opened, request["sql"])


def describe_state(opened: OpenSnapshot) -> dict[str, Any]:
    """Return the sizes of all states, with the keys that have the most rows."""
    from headrace.cli.state.overview import describe_contents

    document = describe_contents(opened, groups=False)
    for reader in opened.read_steps():
        states = document["steps"][reader.step]["states"]
        for number, (name, state) in enumerate(states.items()):
            state["table"] = f"{reader.step}_{name}" if number else reader.step
            state |= _find_largest_keys(reader, name)
    return document


def _find_largest_keys(reader: StepStateReader, name: str) -> dict[str, Any]:
    """Return the keys with the most rows; none where each key has one row.

    `counted_rows` is the number of rows that were read for them, or None if all were.
    """
    import polars as pl

    from headrace.cli.state.values import to_plain_rows
    from headrace.core.state_reader.columns import make_unique_name

    found: dict[str, Any] = {"largest_keys": [], "counted_rows": None}
    keys = [field.name for field in reader.key.columns]
    number = make_unique_name("rows", keys)
    counts: list[pl.DataFrame] = []
    rows = 0
    for frame in reader.read_rows(name):
        if not keys or not set(keys) <= {*frame.columns}:
            return found
        if rows >= MAX_COUNTED_ROWS:
            found["counted_rows"] = rows
            break
        counts.append(frame.group_by(keys).len(number))
        rows += frame.height
    if not counts:
        return found
    summed = pl.concat(counts, how="vertical_relaxed").group_by(keys).agg(pl.col(number).sum())
    largest = summed.sort(number, *keys, descending=[True, *(False for _ in keys)])
    if largest[number][0] > 1:
        found["largest_keys"] = [
            {"key": [row[key] for key in keys], "rows": row[number]}
            for row in to_plain_rows(largest.head(LARGEST_KEYS))
        ]
    return found


def query_state(opened: OpenSnapshot, sql: str) -> dict[str, Any]:
    """Return the first rows of a query."""
    from headrace.cli.state.query import run_state_query
    from headrace.cli.state.sql_tables import build_tables
    from headrace.cli.state.values import to_plain_rows
    from headrace.core.errors.rendering import render_problem

    table, warnings = run_state_query(sql, build_tables(opened), MAX_VALUE)
    types = {field.name: field.type for field in table.schema}
    rows = to_plain_rows(table.rows.head(MAX_ROWS), types)
    return {
        "columns": [{"name": field.name, "type": str(field.type)} for field in table.schema],
        "rows": [list(row.values()) for row in rows],
        "is_cut": table.rows.height > MAX_ROWS,
        "warnings": [render_problem(each) for each in warnings],
    }


def main() -> int:
    """Answer the request, and print the answer or the error; return the exit status."""
    from headrace.cli.state.query import QueryError
    from headrace.core.api.snapshots import SnapshotError
    from headrace.core.errors.rendering import render_problem
    from headrace.core.errors.resource_limits import MEMORY, find_shortage

    os.nice(NICE_INCREMENT)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(OOM_SCORE))
    request = orjson.loads(sys.stdin.buffer.read())
    max_memory = request.get("max_memory", MAX_MEMORY)
    _limit_memory(max_memory)
    answer: dict[str, Any]
    try:
        answer, status = answer_request(request), 0
    except QueryError as error:
        text = "\n".join(map(render_problem, error.problems))
        answer, status = build_error(422, "invalid", text, ""), 1
    except (Refusal, SnapshotError) as error:
        answer, status = build_error(409, "no_state", error.message, error.hint), 1
    except Exception as error:
        if find_shortage(error) != MEMORY:
            raise
        text = describe_memory(max_memory)
        answer, status = build_error(422, "too_large", text, HINT), 1
    sys.stdout.buffer.write(orjson.dumps(answer))
    sys.stdout.buffer.flush()
    return status


def _limit_memory(max_memory: int) -> None:
    """Limit the memory of this process; a lower limit of its own stays.

    Polars reserves address space that it does not use, so only data is limited.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = max_memory if hard == resource.RLIM_INFINITY else min(hard, max_memory)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def build_error(status: int, code: str, message: str, hint: str) -> dict[str, Any]:
    """Return an error for the server."""
    return {"status": status, "code": code, "message": message, "hint": hint}


if __name__ == "__main__":
    sys.exit(main())
