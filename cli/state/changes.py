"""Differences between two checkpoints or savepoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.cli.state.opened import Opened
from headrace.cli.state.values import plain
from headrace.core.readable.step import ReadableStep

if TYPE_CHECKING:
    import polars as pl

ROW = "__identity"


def changes(before: Opened, now: Opened, limit: int) -> dict[str, Any]:
    """Compare two snapshots; return plain data, with up to `limit` examples of each kind."""
    steps = dict.fromkeys((*before.kept.steps, *now.kept.steps))
    return {
        "from": {"title": before.kept.title, "time": before.said["time"]},
        "to": {"title": now.kept.title, "time": now.said["time"]},
        "sources": [*_positions(before.said["sources"], now.said["sources"])],
        "steps": {step: _step(step, before, now, limit) for step in steps},
    }


def _positions(before: Any, now: Any) -> Iterator[dict[str, Any]]:
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


def _step(step: str, before: Opened, now: Opened, limit: int) -> dict[str, Any]:
    if step not in now.kept.steps or step not in before.kept.steps:
        return {"what": "new" if step in now.kept.steps else "gone", "states": {}}
    was, is_ = before.step(step), now.step(step)
    names = dict.fromkeys((*was.names, *is_.names))
    return {
        "what": "kept",
        "states": {name: _state(name, was, is_, limit) for name in names},
    }


def _state(name: str, was: ReadableStep, is_: ReadableStep, limit: int) -> dict[str, Any]:
    """Count the rows that were added, removed and changed, with examples."""
    import polars as pl

    raw = was.meaning is None or is_.meaning is None
    a, b = _whole(was, name, raw=raw), _whole(is_, name, raw=raw)
    by = list(is_.identity(name))
    if raw or by != list(was.identity(name)) or not _alike(a, b, by):
        return {"compared": False, "rows": [a.height, b.height]}
    a, b = _identified(a, by), _identified(b, by)
    both = [n for n in b.columns if n not in (*by, ROW) and a.schema.get(n) == b.schema[n]]
    added, removed = b.join(a, on=ROW, how="anti"), a.join(b, on=ROW, how="anti")
    joined = a.select(ROW, *by, *both).join(
        b.select(ROW, *(pl.col(n).alias(f"{n} {ROW}") for n in both)), on=ROW
    )
    differ = [pl.col(n).ne_missing(pl.col(f"{n} {ROW}")) for n in both]
    changed = joined.filter(pl.any_horizontal(differ)) if differ else joined.clear()
    return {
        "compared": True,
        "rows": [a.height, b.height],
        "added": added.height,
        "removed": removed.height,
        "changed": changed.height,
        "new_columns": [n for n in b.columns if n not in (*by, ROW, *both)],
        "examples": {
            "added": plain(added.drop(ROW).head(limit)),
            "removed": plain(removed.drop(ROW).head(limit)),
            "changed": [*_examples(changed.head(limit), by, both)],
        },
    }


def _examples(changed: pl.DataFrame, by: Sequence[str], both: Sequence[str]) -> Iterator[Any]:
    import polars as pl

    was = plain(changed.select(*by, *both))
    is_ = plain(changed.select(*by, *(pl.col(f"{name} {ROW}").alias(name) for name in both)))
    for a, b in zip(was, is_, strict=True):
        key = {name: b[name] for name in by}
        yield {
            "key": key,
            "from": {n: a[n] for n in both if a[n] != b[n]},
            "to": {n: b[n] for n in both if a[n] != b[n]},
        }


def _whole(step: ReadableStep, name: str, *, raw: bool) -> pl.DataFrame:
    import polars as pl

    frames = list(step.rows(name, as_kept=raw))
    return pl.concat(frames, how="diagonal") if frames else pl.DataFrame()


def _alike(a: pl.DataFrame, b: pl.DataFrame, by: Sequence[str]) -> bool:
    return all(a.schema[name] == b.schema[name] for name in by)


def _identified(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Add a column that identifies rows, in which NaN equals NaN."""
    import polars as pl

    from headrace.core.keygroups import encoded

    if not by:
        return frame.with_columns(pl.lit("").alias(ROW))
    columns = [_as_text(pl.col(n)) if frame.schema[n].is_nested() else pl.col(n) for n in by]
    return frame.with_columns(encoded(frame.select(columns)).alias(ROW))


def _as_text(nested: pl.Expr) -> pl.Expr:
    """Convert arrays and structs to text, which can be part of a key."""
    import polars as pl

    return pl.struct(nested.alias("of")).struct.json_encode()


def changes_said(found: dict[str, Any]) -> str:
    """Format the differences for people."""
    a, b = found["from"], found["to"]
    lines = [f"from {a['title']} ({a['time']})", f"to {b['title']} ({b['time']})"]
    lines += [f"  {_position_said(each)}" for each in found["sources"]]
    for name, step in found["steps"].items():
        if step["what"] != "kept":
            lines += ["", f"{name}: {step['what']}"]
        for state, change in step["states"].items():
            lines += ["", *_state_said(f"{name} {state}", change)]
    return "\n".join(lines)


def _position_said(each: dict[str, Any]) -> str:
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


def _state_said(name: str, change: dict[str, Any]) -> Iterator[str]:
    was, is_ = change["rows"]
    if not change["compared"]:
        yield f"{name}: {was:,} rows, then {is_:,}; their meaning differs, or is unknown"
        return
    same = is_ - change["added"] - change["changed"]
    counts = ", ".join(f"{change[what]:,} {what}" for what in ("added", "removed", "changed"))
    new = f"; new: {', '.join(change['new_columns'])}" if change["new_columns"] else ""
    yield f"{name}: {counts}, {same:,} the same{new}"
    yield from (f"  {line}" for line in _example_lines(change["examples"]))


def _example_lines(examples: dict[str, Any]) -> Iterator[str]:
    for mark, what in (("+", "added"), ("-", "removed")):
        yield from (f"{mark} {_pairs(row)}" for row in examples[what])
    for each in examples["changed"]:
        moved = (f"{n} {_value(each['from'][n])} -> {_value(v)}" for n, v in each["to"].items())
        key = f"{_pairs(each['key'])}: " if each["key"] else ""
        yield f"~ {key}{', '.join(moved)}"


def _pairs(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in row.items())


def _value(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
