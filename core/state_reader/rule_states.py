"""The state of a step with `match` and rules as rows for people.

rules        the rules that hold, as their rows came
keys         a row for each run of a rule and key
waiting      the rows that wait for the watermark, in the order of their event times
held_right   the rows of rules that wait for it
due          the times at which keys are looked at
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY, SLOT
from headrace.core.operators.matches.match_state import PATTERN, list_match_columns
from headrace.core.patterns.parser import parse_pattern
from headrace.core.plan import nodes
from headrace.core.plan.rule_matches import RULE_COLUMN
from headrace.core.plan.states import HELD_RIGHT_ROWS, RULES_STATE
from headrace.core.state_reader.keys import decode_keys
from headrace.core.state_reader.match_states import read_runs
from headrace.core.state_reader.process_states import show_waiting_rows
from headrace.core.state_reader.state_schema import StateSchema
from headrace.core.types.data_types import STRING, TIMESTAMP, Field, Schema, to_polars
from headrace.core.types.elements import EVENT_TIME

if TYPE_CHECKING:
    import polars as pl


class RuleStateReader:
    """The reader of one step's rules, and of their runs."""

    def __init__(self, schema: StateSchema, match: nodes.Match) -> None:
        self._schema = schema
        self._match = match
        self._names = (*schema.key.names, RULE_COLUMN)
        self._key = Schema((*schema.key.columns, Field(RULE_COLUMN, STRING)))
        self._inside = tuple(f"__k{at}" for at in range(len(self._names)))

    def read(self, name: str, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return the rows of a state."""
        import polars as pl

        whole = pl.concat(frames, how="diagonal") if frames else self._build_empty_state(name)
        match name:
            case "keys":
                return self._read_runs(whole)
            case "due":
                names = dict(zip(self._inside, self._names, strict=True))
                time = pl.col(SLOT).cast(to_polars(TIMESTAMP)).alias("time")
                return whole.select(*self._inside, time).unique().sort("time").rename(names)
        return show_waiting_rows(whole, self._inside)

    def _read_runs(self, table: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        table = table.hstack(decode_keys(table[KEY], self._key))
        parts = [
            read_runs(parse_pattern(pattern), rows, self._names)
            for (pattern,), rows in table.group_by(PATTERN, maintain_order=True)
        ]
        return pl.concat(parts) if parts else read_runs(self._match.pattern, table, self._names)

    def _build_empty_state(self, name: str) -> pl.DataFrame:
        import polars as pl

        fields = self._schema.stored_columns
        if name in (HELD_RIGHT_ROWS, RULES_STATE):
            fields = self._schema.value_columns[RULES_STATE]
        columns = {field.name: to_polars(field.type) for field in fields}
        match name:
            case "keys":
                columns = {KEY: pl.String(), PATTERN: pl.String()}
                return pl.DataFrame(schema={**columns, **list_match_columns(self._match)})
            case "due":
                key = (to_polars(field.type) for field in self._key)
                columns = dict(zip(self._inside, key, strict=True))
                return pl.DataFrame(schema={**columns, SLOT: pl.Int64()})
        return pl.DataFrame(schema={**columns, EVENT_TIME: to_polars(TIMESTAMP)})
