"""Rows of a table are in the order of their sequence, whatever order they arrive in."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.types.change_columns import CHANGE
from tests.support.reference.random_pipelines import BEGIN, SCHEMA
from tests.support.runtime import expected_rows
from tests.support.runtime.committed_output import Values, ended, shown
from tests.support.runtime.crashing_jobs import FlakyMemory

PIPELINE = f"""
settings: {{parallelism: PARALLELISM}}
sources:
  rows:
    memory: {{data: in}}
    schema: {SCHEMA[:-1]}, {CHANGE}: string}}
    event_time: at
    watermark: {{delay: 1h}}
    table: {{key: k, sequence: "SEQUENCE"}}
steps:
  step:
    from: rows
    key: s
    aggregate: {{first: first(k), last: last(k), all: collect_list(k)}}
sinks:
  out: {{from: step, memory: {{data: out}}}}
"""
SEQUENCES = (
    "v",
    "cast(v as tinyint)",
    "date_add(date '1970-01-01', cast(v as int))",
    "timestamp_millis(v)",
    "cast(timestamp_millis(v) as timestamp_ntz)",
)
"""Sequences of several types, all in the order of v."""
ROW: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "k": st.integers(0, 9),
        "s": st.sampled_from("ab"),
        "v": st.integers(-20, 20),
        "x": st.none(),
        "at": st.integers(0, 40).map(lambda seconds: BEGIN + timedelta(seconds=seconds)),
        CHANGE: st.sampled_from([None, None, None, "delete"]),
    }
)
SPLITS = st.lists(st.lists(ROW, min_size=1, max_size=30), min_size=2, max_size=2)


def expect(splits: list[list[dict[str, Any]]]) -> Counter[Values]:
    """Compute the groups of the newest rows, in the order of sequence, split and row."""
    newest: dict[int, tuple[Any, ...]] = {}
    for split, rows in enumerate(splits):
        for at, row in enumerate(rows):
            order = (row["v"], split, at)
            newest[row["k"]] = max(newest.get(row["k"], ()), (order, row["s"], row[CHANGE]))
    groups = defaultdict[str, list[tuple[Any, int]]](list)
    for key, (order, group, change) in newest.items():
        if change is None:
            groups[group].append((order, key))
    found = ((group, [key for _, key in sorted(rows)]) for group, rows in groups.items())
    return Counter(shown((group, keys[0], keys[-1], keys)) for group, keys in found)


@settings(max_examples=25)
@given(st.data(), st.sampled_from(SEQUENCES), st.sampled_from([1, 3]))
def test_first_last_and_lists_go_by_sequence_through_changes_crashes_and_rescales(
    data: st.DataObject, sequence: str, parallelism: int
) -> None:
    splits = data.draw(SPLITS)
    text = PIPELINE.replace("PARALLELISM", str(parallelism)).replace("SEQUENCE", sequence)
    chance = random.Random(data.draw(st.integers(0, 9999)))
    memory = FlakyMemory({"in": expected_rows.paced(splits, chance)})
    plan, _ = expected_rows.survived(
        text, memory, chance, chance.randrange(4), slow_share=chance.choice([0.0, 0.3])
    )
    stream = plan.streams["step"]
    assert ended(memory, stream.kind, stream.schema.names) == expect(splits)
    expected_rows.compare(plan, memory, {"rows": splits})
