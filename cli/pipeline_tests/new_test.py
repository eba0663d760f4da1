"""`headrace test --create`: a test made of the first rows of the real sources."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import TypeAlias

from headrace.cli.errors import Refusal
from headrace.cli.pipeline_tests.checked_tests import CheckedTests, Suite, check_tests
from headrace.cli.pipeline_tests.file_update import replace_text, write_file
from headrace.cli.pipeline_tests.record_decoding import decode_bad_record
from headrace.cli.pipeline_tests.report import CaseResult
from headrace.cli.pipeline_tests.source_sample import PATIENCE_S, SourceSample, read_samples
from headrace.core.api.failures import ConnectorError, format_refusal
from headrace.core.api.snapshots import SnapshotError
from headrace.core.checkpoint.manifest import RestoredCheckpoint, restore_checkpoint
from headrace.core.pipeline.pipeline_tests.tests_loader import PipelineTestFile, find_test_path
from headrace.core.pipeline.pipeline_tests.text_edits import EditError, append_item, apply_edits
from headrace.core.pipeline.sections import KeyedNode
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.composer import compose_document
from headrace.core.pipeline.yaml_document.nodes import YamlMapping
from headrace.core.pipeline.yaml_document.source_file import SourceText, read_source_file
from headrace.core.plan.layout import get_lookup
from headrace.core.plan.nodes import Plan
from headrace.core.testing.bound_tests import EVENT_WORDS, BoundTest
from headrace.core.testing.row_text import RowWriter, UnwritableValue, write_text
from headrace.core.testing.typed_rows import list_record_columns, name_lookup_table
from headrace.core.testing.visible_rows import Row
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage.home import Home
from headrace.state.storage.remote.checkpoint_repository import open_repository

Run: TypeAlias = "Callable[[BoundTest], CaseResult]"
"""Runs a test, and finds the edits with which it passes."""
WORDS = {*EVENT_WORDS, "checkpoint", "restart", "savepoint"}


def read_newest_checkpoint(home: Home, plan: Plan) -> RestoredCheckpoint:
    """Read the newest checkpoint of a job, which may run meanwhile. Raises Refusal."""
    try:
        store = open_repository(home).open_read_only()
        number = max(store.list_checkpoints(), default=None) if store else None
        if store is None or number is None:
            hint = "without --job, the test has the first rows of the sources"
            raise Refusal(f'the job "{home.name}" has no checkpoint', hint)
        return restore_checkpoint(number, store.read_manifest(number), plan)
    except SnapshotError as error:
        raise Refusal(error.message) from None


@dataclass(frozen=True, slots=True)
class NewTest:
    """The file of a new test as it was, its text with the test, and the tests as nodes."""

    file: SourceText
    text: SourceText
    tests: KeyedNode
    name: str


def create_test(
    suite: Suite,
    checked: CheckedTests,
    limit: int,
    run: Run,
    restored: RestoredCheckpoint | None = None,
) -> CaseResult:
    """Write a test of the first rows of the sources into its file, with what then comes.

    With a checkpoint of the job, these are the rows after it. If the test fails, nothing is
    written. Raises Refusal.
    """
    plan, loaded = checked.checked.plan, checked.checked.loaded_pipeline
    assert plan is not None, "the pipeline is valid"
    try:
        splits = None if restored is None else restored.restored_state.splits
        samples = read_samples(plan, loaded.folder, limit, splits)
    except ConnectorError as error:
        raise Refusal(format_refusal(error), error.hint, error.exit_status) from None
    if not any(each.rows or each.bad_records for each in samples):
        hint = f"a source is left after {PATIENCE_S:.0f} s without rows"
        raise Refusal("the sources gave no rows", hint)
    try:
        after = "" if restored is None else f" after checkpoint {restored.number}"
        new = append_test(suite, checked, samples, after)
    except UnwritableValue as error:
        raise Refusal(f"no test can be made of these rows: {error}") from None
    file = PipelineTestFile(Path(new.file.name), Path(suite.pipeline), new.tests)
    tests = check_tests(checked.checked, [file], with_section=False)
    test = next(each for each in tests.tests if each.test.name == new.name)
    result = run(test)
    if result.mismatches:
        return result
    text = apply_edits(new.text.text, result.edits)
    if os.path.exists(new.file.name):
        replace_text(new.file, text)
    else:
        write_file(new.file.name, text.encode())
    return replace(result, fixed=[(test.test.location, test.test.name.reveal())])


def append_test(
    suite: Suite, checked: CheckedTests, samples: Sequence[SourceSample], after: str = ""
) -> NewTest:
    """Append a test of these rows, which expects no rows, to the text of its file.

    `after` says in its name where the rows begin. The file is the test file, if there is one, or
    the pipeline if it has tests; else a new test file beside the pipeline. Raises Refusal,
    UnwritableValue.
    """
    file = _read_file(suite, checked)
    name = _choose_name(samples, after, {str(each.test.name) for each in checked.tests})
    root, _ = compose_document(file)
    tests = _find_tests(root)
    assert tests is not None, file.name
    lines = list(_write_test(name, samples, checked))
    try:
        text = apply_edits(file.text, append_item(tests, lines))
    except EditError as error:
        raise Refusal(f"no test can be appended to {file.name}: {error}") from None
    new = SourceText(file.name, text)
    root, problems = compose_document(new)
    tests = _find_tests(root)
    assert tests is not None, problems
    return NewTest(file, new, tests, name)


def _read_file(suite: Suite, checked: CheckedTests) -> SourceText:
    """Read the file to append a test to; of a new one, what it begins with. Raises Refusal."""
    if suite.files:
        path = str(suite.files[0].path)
    elif checked.checked.loaded_pipeline.tests is not None:
        path = suite.pipeline
    else:
        return SourceText(str(find_test_path(Path(suite.pipeline))), "tests:\n")
    file, problems = read_source_file(path)
    if file is None:
        raise Refusal(problems[0].message)
    return file


def _find_tests(root: object) -> KeyedNode | None:
    entry = root.get("tests") if isinstance(root, YamlMapping) else None
    return None if entry is None else KeyedNode(Text(entry.key.value, entry.key), entry.value)


def _choose_name(samples: Sequence[SourceSample], after: str, taken: Collection[str]) -> str:
    """Return a name that no other test has."""
    count = max(each.row_count for each in samples)
    name = (f"the first {count} rows" if count != 1 else "the first row") + after
    numbers = (f"{name}, {number}" for number in range(2, len(taken) + 3))
    return next(each for each in (name, *numbers) if each not in taken)


def _write_test(name: str, samples: Sequence[SourceSample], checked: CheckedTests) -> Iterator[str]:
    """Yield the lines of a test."""
    plan = checked.checked.plan
    assert plan is not None, "the pipeline is valid"
    day = _find_day(samples)
    writer = RowWriter(day)
    yield f"name: {write_text(name)}"
    if day is not None:
        yield f"date: {day}"
    yield "given:"
    for sample in samples:
        yield from (f"  {line}" for line in _write_events(sample, writer))
    if tables := list_lookup_tables(plan):
        yield f"tables: {{{', '.join(f'{write_text(each)}: []' for each in tables)}}}"
    yield "expect:"
    sinks = checked.checked.pipeline.sinks.values()
    for stream in dict.fromkeys(str(sink.from_) for sink in sinks):
        yield f"  {write_text(stream)}: []"


def list_lookup_tables(plan: Plan) -> list[str]:
    """Return the names by which tests give the tables of lookups."""
    names = (name_lookup_table(part) for part in plan if get_lookup(part) is not None)
    return [*dict.fromkeys(names)]


def _write_events(sample: SourceSample, writer: RowWriter) -> Iterator[str]:
    """Yield the lines of the events of a source."""
    name = write_text(sample.source.name)
    splits = [[_write_row(sample, row, writer) for row in rows] for rows in sample.rows.values()]
    if len(splits) > 1:
        yield from ("- splits:", f"    {name}:")
        for rows in splits:
            yield from (f"      {mark} - {row}" for mark, row in _mark_first(rows))
    for rows in splits if len(splits) == 1 else ():
        is_word = sample.source.name in WORDS
        yield from ("- rows:", f"    {name}:") if is_word else (f"- {name}:",)
        yield from (f"{'    ' if is_word else '  '}  - {row}" for row in rows)
    bad = list(map(write_text, _list_bad_records(sample)))
    if bad:
        yield f"- bad: {{{name}: [{', '.join(bad)}]}}"


def _mark_first(rows: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield rows, the first with the dash of its split."""
    for at, row in enumerate(rows):
        yield ("-" if at == 0 else " "), row


def _list_bad_records(sample: SourceSample) -> Iterator[str]:
    """Yield the records that the source cannot read in a test either."""
    for raw in sample.bad_records:
        if decode_bad_record(sample.source, Text(raw)) is not None:
            yield raw


def _write_row(sample: SourceSample, row: Row, writer: RowWriter) -> str:
    """Write a row; of columns that say what happens to a table, only those that say something."""
    declared = sample.source.schema.names
    names = [name for name, value in row.items() if name in declared or value is not None]
    return writer.write_row(row, list_record_columns(sample.source), names)


def _find_day(samples: Sequence[SourceSample]) -> date | None:
    """Return the day of most times, if there are any."""
    days = Counter(
        value.date()
        for sample in samples
        for rows in sample.rows.values()
        for row in rows
        for value in row.values()
        if isinstance(value, datetime)
    )
    return days.most_common(1)[0][0] if days else None
