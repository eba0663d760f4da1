"""Comparison of a checkpoint or savepoint with another one, or with a pipeline.

For a pipeline it says which state is restored, starts empty or is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.cli.state.snapshot_argument import OpenSnapshot
from headrace.cli.state.values import to_plain_rows
from headrace.core.api.snapshots import Manifest
from headrace.core.checkpoint.compatibility import RestoreOptions, compare_checkpoint
from headrace.core.plan import nodes
from headrace.core.plan.fingerprint import build_fingerprints
from headrace.core.state_reader.step_states import StepStateReader

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.types.data_types import Type


ROW_ID = "__identity"


def compare_snapshots(before: OpenSnapshot, now: OpenSnapshot, limit: int) -> dict[str, Any]:
    """Compare two snapshots; return plain data, with up to `limit` examples of each kind."""
    steps = dict.fromkeys((*before.snapshot.steps, *now.snapshot.steps))
    return {
        "from": {"title": before.snapshot.title, "time": before.manifest["time"]},
        "to": {"title": now.snapshot.title, "time": now.manifest["time"]},
        "sources": [*_compare_positions(before.manifest["sources"], now.manifest["sources"])],
        "steps": {step: _compare_steps(step, before, now, limit) for step in steps},
    }


def _compare_positions(before: Any, now: Any) -> Iterator[dict[str, Any]]:
    """Yield the splits that are new, gone, or at another position."""
    for source in dict.fromkeys((*before, *now)):
        was = {split["split"]: split for split in before.get(source, ())}
        is_ = {split["split"]: split for split in now.get(source, ())}
        for split in dict.fromkeys((*was, *is_)):
            a, b = was.get(split), is_.get(split)
            if a is None or b is None or (a["position"], a["ended"]) != (b["position"], b["ended"]):
                yield {
                    "source": source,
                    "split": split,
                    "from": a and a["position"],
                    "to": b and b["position"],
                    "rows": (b["rows"] if b else 0) - (a["rows"] if a else 0),
                    "what": "new" if a is None else "gone" if b is None else "read on",
                    "ended": bool(b and b["ended"]),
                }


def _compare_steps(
    step: str, before: OpenSnapshot, now: OpenSnapshot, limit: int
) -> dict[str, Any]:
    if step not in now.snapshot.steps or step not in before.snapshot.steps:
        return {"what": "new" if step in now.snapshot.steps else "gone", "states": {}}
    was, is_ = before.read_step(step), now.read_step(step)
    names = dict.fromkeys((*was.state_names, *is_.state_names))
    return {
        "what": "kept",
        "states": {name: _compare_states(name, was, is_, limit) for name in names},
    }


def _compare_states(
    name: str, was: StepStateReader, is_: StepStateReader, limit: int
) -> dict[str, Any]:
    """Count the rows that were added, removed and changed, with examples."""
    import polars as pl

    raw = was.schema is None or is_.schema is None
    a, b = _read_state(was, name, raw=raw), _read_state(is_, name, raw=raw)
    by = list(is_.list_identity_columns(name))
    if raw or by != list(was.list_identity_columns(name)) or not _have_same_key_types(a, b, by):
        return {"compared": False, "rows": [a.height, b.height]}
    a, b = _add_row_id(a, by), _add_row_id(b, by)
    both = [n for n in b.columns if n not in (*by, ROW_ID) and a.schema.get(n) == b.schema[n]]
    added, removed = b.join(a, on=ROW_ID, how="anti"), a.join(b, on=ROW_ID, how="anti")
    joined = a.select(ROW_ID, *by, *both).join(
        b.select(ROW_ID, *(pl.col(n).alias(f"{n} {ROW_ID}") for n in both)), on=ROW_ID
    )
    differ = [pl.col(n).ne_missing(pl.col(f"{n} {ROW_ID}")) for n in both]
    changed = joined.filter(pl.any_horizontal(differ)) if differ else joined.clear()
    return {
        "compared": True,
        "rows": [a.height, b.height],
        "added": added.height,
        "removed": removed.height,
        "changed": changed.height,
        "new_columns": [n for n in b.columns if n not in (*by, ROW_ID, *both)],
        "examples": {
            "added": to_plain_rows(added.drop(ROW_ID).head(limit), is_.list_column_types(name)),
            "removed": to_plain_rows(removed.drop(ROW_ID).head(limit), was.list_column_types(name)),
            "changed": [
                *_build_examples(changed.head(limit), by, both, is_.list_column_types(name))
            ],
        },
    }


def _build_examples(
    changed: pl.DataFrame, by: Sequence[str], both: Sequence[str], types: Mapping[str, Type]
) -> Iterator[Any]:
    import polars as pl

    was = to_plain_rows(changed.select(*by, *both), types)
    is_ = to_plain_rows(
        changed.select(*by, *(pl.col(f"{name} {ROW_ID}").alias(name) for name in both)), types
    )
    for a, b in zip(was, is_, strict=True):
        key = {name: b[name] for name in by}
        yield {
            "key": key,
            "from": {n: a[n] for n in both if a[n] != b[n]},
            "to": {n: b[n] for n in both if a[n] != b[n]},
        }


def _read_state(step: StepStateReader, name: str, *, raw: bool) -> pl.DataFrame:
    import polars as pl

    frames = list(step.read_rows(name, as_kept=raw))
    return pl.concat(frames, how="diagonal") if frames else pl.DataFrame()


def _have_same_key_types(a: pl.DataFrame, b: pl.DataFrame, by: Sequence[str]) -> bool:
    return all(a.schema[name] == b.schema[name] for name in by)


def _add_row_id(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Add a column that identifies rows, in which NaN equals NaN."""
    import polars as pl

    from headrace.core.types.key_groups import encode_keys

    if not by:
        return frame.with_columns(pl.lit("").alias(ROW_ID))
    columns = [_nested_to_text(pl.col(n)) if frame.schema[n].is_nested() else pl.col(n) for n in by]
    return frame.with_columns(encode_keys(frame.select(columns)).alias(ROW_ID))


def _nested_to_text(nested: pl.Expr) -> pl.Expr:
    """Convert arrays and structs to text, which can be part of a key."""
    import polars as pl

    return pl.struct(nested.alias("of")).struct.json_encode()


def format_comparison(found: dict[str, Any]) -> str:
    """Format the differences for people."""
    a, b = found["from"], found["to"]
    lines = [f"from {a['title']} ({a['time']})", f"to {b['title']} ({b['time']})"]
    lines += [f"  {_format_position(each)}" for each in found["sources"]]
    for name, step in found["steps"].items():
        if step["what"] != "kept":
            lines += ["", f"{name}: {step['what']}"]
        for state, change in step["states"].items():
            lines += ["", *_format_state_changes(f"{name} {state}", change)]
    return "\n".join(lines)


def _format_position(each: dict[str, Any]) -> str:
    head = f"{each['source']}: {each['split']}"
    rows = f", {each['rows']:,} rows" if each["rows"] else ""
    match each["what"]:
        case "gone":
            return f"{head} is gone"
        case "new":
            return (
                f"{head} is new, read to {'its start' if each['to'] is None else each['to']}{rows}"
            )
    end = ", its end" if each["ended"] else ""
    start = "its start" if each["from"] is None else each["from"]
    return f"{head} from {start} to {each['to']}{end}{rows}"


def _format_state_changes(name: str, change: dict[str, Any]) -> Iterator[str]:
    was, is_ = change["rows"]
    if not change["compared"]:
        yield f"{name}: {was:,} rows, then {is_:,}; their meaning differs, or is unknown"
        return
    same = is_ - change["added"] - change["changed"]
    counts = ", ".join(f"{change[what]:,} {what}" for what in ("added", "removed", "changed"))
    new = f"; new: {', '.join(change['new_columns'])}" if change["new_columns"] else ""
    yield f"{name}: {counts}, {same:,} the same{new}"
    yield from (f"  {line}" for line in _format_examples(change["examples"]))


def _format_examples(examples: dict[str, Any]) -> Iterator[str]:
    for mark, what in (("+", "added"), ("-", "removed")):
        yield from (f"{mark} {_format_pairs(row)}" for row in examples[what])
    for each in examples["changed"]:
        changes = (
            f"{n} {_format_value(each['from'][n])} -> {_format_value(v)}"
            for n, v in each["to"].items()
        )
        key = f"{_format_pairs(each['key'])}: " if each["key"] else ""
        yield f"~ {key}{', '.join(changes)}"


def _format_pairs(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_format_value(value)}" for name, value in row.items())


def _format_value(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def check_compatibility(document: Manifest, plan: nodes.Plan) -> dict[str, Any]:
    """Check the compatibility as `run` does; return plain data.

    Lost state is found by comparing the check with one that allows lost state.
    """
    content: Any = document
    strict, lenient = (
        compare_checkpoint(document, plan),
        compare_checkpoint(document, plan, RestoreOptions(allow_lost_state=True)),
    )
    still = {message for message, _ in lenient.rejections}
    refused = [(message, hint) for message, hint in strict.rejections if message in still]
    lost = [(message, hint) for message, hint in strict.rejections if message not in still]
    both = build_fingerprints(plan).keys() & content["kept"].keys()
    bad = {step for step in both for m, _ in refused if m.startswith(f"the state of {step} ")}
    return {
        "fits": not strict.rejections,
        "goes_on": sorted(both - bad),
        "refused": [{"message": message, "hint": hint} for message, hint in refused],
        "lost": [{"message": message, "hint": hint} for message, hint in lost],
        "notes": list(strict.notes),
    }


def format_compatibility(title: str, path: str, document: dict[str, Any]) -> str:
    """Format the result for people."""
    lines = [f"{path} {'can' if document['fits'] else 'cannot'} resume from {title}"]
    if document["goes_on"]:
        lines.append(f"  the state of {', '.join(document['goes_on'])} is compatible")
    lines += [f"  {note}" for note in document["notes"]]
    for what, head in (("refused", "not compatible"), ("lost", "would be lost")):
        if document[what]:
            lines.append(f"{head}:")
        for each in document[what]:
            lines.append(f"  {each['message']}")
            lines += [f"      {each['hint']}"] if each["hint"] else []
    return "\n".join(lines)
