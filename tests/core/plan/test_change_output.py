"""Sinks of changes in the plan: the steps in front of them, and the mistakes of users."""

from pathlib import Path

import pytest

from headrace.core.plan import nodes
from tests.support.plans import plan_of, said

SOURCES = "rows: {{files: {{path: in.jsonl}}, schema: {{id: bigint, k: string, {column}: double}}}}"
LATEST = "latest: {from: rows, dedup: {key: id, keep: last}}"
UNKEYED = f"{LATEST}\n  unkeyed: {{from: latest, select: [k]}}"
FULL = "files: {path: out, changelog: full}"
LAST = "files: {path: out, changelog: last}"
KAFKA = "kafka: {brokers: 'b:9092', topic: t"
DEBEZIUM = f"{KAFKA}}}, format: debezium_json"


def document(stream: str, sink: str, steps: str = "", column: str = "v") -> str:
    written = f"steps:\n  {steps}\n" if steps else ""
    sources = f"sources:\n  {SOURCES.format(column=column)}\n"
    return f"name: t\n{sources}{written}sinks:\n  o: {{from: {stream}, {sink}}}\n"


@pytest.mark.parametrize(
    ("stream", "sink", "steps", "read", "kind", "state"),
    [
        ("latest", FULL, LATEST, "latest@changes", nodes.Append(), "retract"),
        ("unkeyed", FULL, UNKEYED, "unkeyed@changes", nodes.Append(), "counted"),
        ("latest", LAST, LATEST, "latest", nodes.Upsert(("id",)), ""),
        ("latest", DEBEZIUM, LATEST, "latest@debezium", nodes.Upsert(("id",), True), "retract"),
        ("rows", FULL, "", "rows@changes", nodes.Append(), ""),
        ("rows", LAST, "", "rows", nodes.Append(), ""),
    ],
)
def test_the_step_in_front_of_a_sink_has_what_the_sink_writes(
    tmp_path: Path,
    stream: str,
    sink: str,
    steps: str,
    read: str,
    kind: nodes.StreamKind,
    state: str,
) -> None:
    plan = plan_of(tmp_path, document(stream, sink, steps))
    part = plan.part("o")
    assert isinstance(part, nodes.Sink)
    assert (part.input, plan.streams[read].kind) == (read, kind)
    added = [name for name in plan.streams[read].schema.names if name.startswith("_")]
    expected = {"changes": ["_change", "_sequence"], "debezium": ["__before", "__sequence"]}
    assert added == expected.get(read.partition("@")[2], [])
    before = plan.part(read)
    operations = before.operations if isinstance(before, nodes.Step) else ()
    found = [each.output for each in operations if isinstance(each, nodes.ChangelogConversion)]
    assert found == ([state] if state else [])


@pytest.mark.parametrize(
    ("stream", "sink", "steps", "column", "message"),
    [
        (
            "unkeyed",
            LAST,
            UNKEYED,
            "v",
            '8: sink "o": the rows of "unkeyed" are added and removed, and have no key by which'
            " files could write them [aggregate the rows by a key, or keep the columns that"
            " identify the rows of all inputs; changelog: full writes each added and removed row]",
        ),
        (
            "unkeyed",
            DEBEZIUM,
            UNKEYED,
            "v",
            '8: sink "o": the rows of "unkeyed" are added and removed, and have no key by which'
            " kafka could write them [aggregate the rows by a key, or keep the columns that"
            " identify the rows of all inputs]",
        ),
        (
            "latest",
            FULL,
            LATEST,
            "_change",
            '7: sink "o": changelog: full adds a column "_change", and "latest" has one'
            " [rename it in a step before: with: {change_of: _change}, drop: [_change]]",
        ),
        (
            "rows",
            DEBEZIUM,
            "",
            "v",
            '5: sink "o": the rows of "rows" replace no others: debezium_json is for changes'
            " [format: json writes them; dedup: {key: ..., keep: last} makes changes of them]",
        ),
        (
            "latest",
            f"{KAFKA}, tombstones: false}}",
            LATEST,
            "v",
            '7: sink "o": tombstones applies only to format: debezium_json'
            " [remove it: in other formats a deletion is a tombstone]",
        ),
        (
            "latest",
            FULL.replace("full", "all"),
            LATEST,
            "v",
            '7: sink "o": files.changelog: wanted last or full, got "all"',
        ),
    ],
)
def test_what_a_sink_of_changes_refuses(
    tmp_path: Path, stream: str, sink: str, steps: str, column: str, message: str
) -> None:
    assert said(tmp_path, document(stream, sink, steps, column)) == [message]


def test_the_hint_about_a_taken_name_works(tmp_path: Path) -> None:
    renamed = "renamed: {from: latest, with: {change_of: _change}, drop: [_change]}"
    text = document("renamed", FULL, f"{LATEST}\n  {renamed}", "_change")
    names = plan_of(tmp_path, text).streams["renamed@changes"].schema.names
    assert names == ("id", "k", "change_of", "_change", "_sequence")


def test_columns_of_changes_can_name_folders(tmp_path: Path) -> None:
    sink = "files: {path: out, changelog: full, partition_by: _change}"
    assert said(tmp_path, document("latest", sink, LATEST)) == []
