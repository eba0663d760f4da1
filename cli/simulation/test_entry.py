"""A case as an entry of `tests:`, as YAML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from headrace.cli.simulation.disturbed_run import (
    TOLERANCE,
    SimulatedResult,
    has_doubles,
    name_test,
)
from headrace.cli.simulation.random_case import RandomCase, replace_faults
from headrace.core.pipeline.pipeline_tests.model import ClockAdvance, ControlEvent, Rescale
from headrace.core.plan import nodes
from headrace.core.testing.bound_tests import (
    EVENT_WORDS,
    BoundEvent,
    FedIdleness,
    FedRows,
    FedWatermark,
)
from headrace.core.testing.random_rows import convert_us
from headrace.core.testing.row_text import RowWriter, write_text
from headrace.core.testing.typed_rows import (
    Row,
    get_lookup,
    list_record_columns,
    list_table_columns,
    name_lookup_table,
)
from headrace.core.types.data_types import TIMESTAMP, Schema
from headrace.core.types.lazy_dataclass import dataclass

WIDTH = 100


@dataclass(frozen=True, slots=True)
class EntryWriter:
    """Writes cases of a plan."""

    plan: nodes.Plan

    def write(self, case: RandomCase, expected: SimulatedResult) -> str:
        """Return the entry of a case, which expects a result. Raises UnwritableValue."""
        return "\n".join(self._list_lines(case, expected))

    def _list_lines(self, case: RandomCase, expected: SimulatedResult) -> Iterator[str]:
        yield f"- name: {write_text(name_test(case))}"
        events = [event for event in replace_faults(case).events if event != ControlEvent("end")]
        yield "  given:" if events else "  given: []"
        for event in events:
            yield from self._write_event(event)
        if case.tables:
            yield "  tables:"
        tables = {name_lookup_table(self.plan.part(step)): step for step in case.tables}
        for name, step in tables.items():  # all lookups of a name have the same rows
            lookup = get_lookup(self.plan.part(step))
            assert lookup is not None, step
            yield from _write_rows(f"    {name}:", case.tables[step], list_table_columns(lookup))
        yield "  expect:"
        for name, rows in expected.streams.items():
            schema = self.plan.streams[name].schema
            if has_doubles(schema) and rows:
                yield f"    {name}:"
                yield f"      within: {TOLERANCE}"
                yield from _write_rows("      rows:", rows, schema)
            else:
                yield from _write_rows(f"    {name}:", rows, schema)

    def _write_event(self, event: BoundEvent) -> Iterator[str]:
        match event:
            case FedRows(source, (rows,)) if source in EVENT_WORDS:
                yield "  - rows:"
                yield from _write_rows(f"      {source}:", *self._select_columns(source, rows))
            case FedRows(source, (rows,)):
                yield from _write_rows(f"  - {source}:", *self._select_columns(source, rows))
            case FedRows(source, splits):
                yield "  - splits:"
                yield f"      {source}:"
                for split in splits:
                    written = _write_all(*self._select_columns(source, split))
                    yield f"      - [{', '.join(written)}]"
            case FedWatermark(source, at_us):
                time = RowWriter().write_value(convert_us(at_us), TIMESTAMP)
                yield f"  - watermark: {{{source}: {time}}}"
            case FedIdleness(source, (split,)):
                yield f"  - idle: {{{source}: {split}}}"
            case FedIdleness(source, splits):
                yield f"  - idle: {{{source}: [{', '.join(map(str, splits))}]}}"
            case ClockAdvance(by):
                yield f"  - advance: {by // timedelta(seconds=1)}s"
            case Rescale(parallelism):
                yield f"  - rescale: {parallelism}"
            case ControlEvent(action):
                yield f"  - {action}"

    def _select_columns(self, name: str, rows: Sequence[Row]) -> tuple[list[Row], Schema]:
        """Return rows without nulls, and without columns that the plan does not read."""
        source = self.plan.part(name)
        assert isinstance(source, nodes.Source), source
        read = {*source.decoded_columns, *nodes.CHANGE_COLUMNS}
        selected = [{n: v for n, v in row.items() if v is not None and n in read} for row in rows]
        return selected, list_record_columns(source)


def _write_all(rows: Sequence[Row], schema: Schema) -> list[str]:
    return [RowWriter().write_row(row, schema, row) for row in rows]


def _write_rows(key: str, rows: Sequence[Row], schema: Schema) -> list[str]:
    """Return rows after a key: in one line if they fit."""
    written = _write_all(rows, schema)
    whole = f"{key} [{', '.join(written)}]"
    if len(whole) <= WIDTH or len(rows) < 2:
        return [whole]
    indent = " " * (len(key) - len(key.lstrip(" -")))
    return [key, *(f"{indent}  - {row}" for row in written)]
