"""Checks of pipelines in a short process, so that the server need not load Polars.

The process reads a request per file from standard input, and prints the name and the problems of
each pipeline; with a `home`, also whether the job's newest checkpoint can be resumed with it, and
with `graph`, also its graph.

    echo '[{"file": "orders.yaml"}]' | python -m headrace.cli.server.pipeline_check
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from headrace.cli.server.short_process import AnswerTooLarge, ShortProcess

if TYPE_CHECKING:
    from headrace.cli.pipeline_file import CheckedPipeline
    from headrace.core.checkpoint.compatibility import RestoreOptions
    from headrace.core.plan.nodes import Plan

MAX_ANSWER = 64 * 2**20
PROCESS = ShortProcess(__name__, MAX_ANSWER)


class CheckFailed(Exception):
    """The process of the check has failed."""


async def check_pipelines(requests: Sequence[Mapping[str, object]]) -> list[dict[str, Any]]:
    """Check pipelines. Raises CheckFailed."""
    failed = "the process that checks pipelines has failed"
    try:
        answer = await PROCESS.ask(requests)
    except AnswerTooLarge as error:
        raise CheckFailed(f"{failed}: {error}") from None
    try:
        found: list[dict[str, Any]] = orjson.loads(answer.output)
    except ValueError:
        raise CheckFailed(f"{failed}: {answer.failure}") from None
    return found


def check_one(request: Mapping[str, Any]) -> dict[str, object]:
    """Check a pipeline: its name, its problems, and what a job of it may repeat or not resume."""
    from headrace.cli.pipeline_file import check_pipeline
    from headrace.core.errors.rendering import render_problem
    from headrace.core.plan.explain import build_graph_document

    checked = check_pipeline(request["file"], request.get("overrides", ()), request.get("text"))
    problems: list[dict[str, object]] = [
        {
            "severity": problem.severity,
            "line": problem.location.line if problem.location else None,
            "column": problem.location.column if problem.location else None,
            "message": problem.message,
            "hint": problem.hint,
            "text": render_problem(problem),
        }
        for problem in checked.problems
    ]
    found: dict[str, object] = {
        "file": request["file"],
        "name": str(checked.pipeline.name),
        "is_valid": checked.is_valid,
        "problems": problems,
    }
    if checked.is_valid and checked.plan is not None:
        found["at_least_once"] = _list_repeating_sinks(checked)
        unknown = _find_unknown_state(checked.plan, request.get("reset_state", ()))
        if unknown:
            found["is_valid"] = False
            problems.append({"severity": "error", "text": unknown})
        refusal = _find_refusal(checked.plan, request)
        if refusal is not None:
            earlier = (_find_refusal(plan, request) for _, plan in checked.build_earlier_plans())
            refusal = refusal if all(earlier) else None
        found["refusal"] = refusal
        if request.get("graph"):
            found["graph"] = build_graph_document(checked.plan)
    return found


def _find_unknown_state(plan: Plan, names: Sequence[str]) -> str:
    """Return the error of the first name that is no source or step with state, if there is one."""
    from headrace.cli.run import find_unknown_state

    return find_unknown_state(plan, names)


def _list_repeating_sinks(checked: CheckedPipeline) -> list[str]:
    """List the sinks that may write a row twice after a restart."""
    from headrace.connectors.registry import REGISTRY

    names = []
    for name, sink in checked.pipeline.sinks.items():
        side = REGISTRY[sink.connector.name].sink
        delivery = str(getattr(sink.options, "delivery", ""))
        if (side is not None and side.prints_rows) or delivery == "at_least_once":
            names.append(str(name))
    return names


def _find_refusal(plan: Plan, request: Mapping[str, Any]) -> dict[str, str] | None:
    """Return why a job of the plan cannot resume from a savepoint, or from its checkpoint."""
    from headrace.cli.savepoint_restore import open_compatible
    from headrace.core.api.snapshots import SnapshotError
    from headrace.core.checkpoint.compatibility import RestoreOptions, drop_fresh_hint

    options = RestoreOptions(
        frozenset(request.get("reset_state", ())),
        request.get("allow_lost_state", False),
        request.get("resume_drained", False),
    )
    try:
        if "savepoint" in request:
            open_compatible(request["savepoint"], plan, options)
        if "home" in request:
            _check_checkpoint(plan, request["home"], options)
    except SnapshotError as error:
        return {"message": error.message, "hint": drop_fresh_hint(error.hint)}
    return None


def _check_checkpoint(plan: Plan, root: str, options: RestoreOptions) -> None:
    """Check that the newest checkpoint of a home can be resumed. Raises SnapshotError."""
    from headrace.core.checkpoint.compatibility import check_compatibility
    from headrace.state.storage.home import Home
    from headrace.state.storage.local_disk import LocalDisk
    from headrace.state.storage.remote.checkpoint_repository import open_repository

    home = Home(LocalDisk(), root, str(plan.name))
    store = open_repository(home).open_read_only()
    number = max(store.list_checkpoints(), default=None) if store else None
    if store is not None and number is not None:
        check_compatibility(number, store.read_manifest(number), plan, options)


def main() -> None:
    """Check the pipelines of the requests, and print the results."""
    found = [check_one(request) for request in orjson.loads(sys.stdin.buffer.read())]
    sys.stdout.buffer.write(orjson.dumps(found))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
