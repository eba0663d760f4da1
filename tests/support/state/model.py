"""A step with state against its model: random operations, freezing, reopening elsewhere.

The step is cut into subtasks as a real one is, and the model is a dict and a list. Any backend can
take the part of the memory one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import (
    EXPIRY,
    KEY,
    KEY_INDEX,
    SLOT,
    FrozenState,
    KeyedTable,
    RunsLayout,
    SortedRuns,
    StepState,
)
from headrace.core.api.state_backend import StateBackend, StateOwnership
from headrace.core.types.key_groups import compute_owned_groups, compute_row_groups, encode_keys
from tests.support.state.manifests import build_blob_manifest

GROUPS = 8
KEYS = st.integers(0, 12)
SLOTS = st.integers(-3, 12)
TEXTS = st.sampled_from(["", "short", "a text that is too long to stand in a view"])


def merged(frame: pl.DataFrame) -> pl.DataFrame:
    """One row a key and slot."""
    return (
        frame.group_by("k", SLOT)
        .agg(pl.col("n").sum(), pl.col("all").explode())
        .select(frame.columns)
    )


LAYOUT = RunsLayout({"k": pl.Int64(), "n": pl.Int64(), "all": pl.List(pl.String())}, ("k",), merged)


@dataclass(slots=True)
class Model:
    """Expected contents of the state of all subtasks together."""

    rows: dict[int, tuple[str, int | None]] = field(default_factory=dict)
    """Text and expiry of each key."""
    filed: dict[tuple[int, int], list[str]] = field(default_factory=lambda: defaultdict(list))
    """Texts of each key and slot."""
    now_us: int = -100
    late: int = 0

    def known(self, keys: Iterable[int]) -> dict[int, str]:
        """Return the texts of these keys that have not expired."""
        found = {key: self.rows[key] for key in keys if key in self.rows}
        return {
            k: text for k, (text, until) in found.items() if until is None or until >= self.now_us
        }

    def between(self, after: int, until: int) -> dict[tuple[int, int], list[str]]:
        """Return the rows filed under that slot."""
        return {at: sorted(texts) for at, texts in self.filed.items() if after < at[1] <= until}

    def drop(self, until: int) -> None:
        """Delete everything up to that slot."""
        for at in [at for at in self.filed if at[1] <= until]:
            del self.filed[at]


@dataclass(slots=True)
class Subtask:
    """One of the subtasks of the step."""

    groups: range
    state: StepState
    model: Model
    _table: KeyedTable | None = None
    _runs: SortedRuns | None = None

    @property
    def table(self) -> KeyedTable:
        """Opened when it is needed, as operators do that learn its columns from their rows."""
        if self._table is None:
            self._table = self.state.open_table("rows", {"text": pl.String()})
            self._table.expire(self.model.now_us)
        return self._table

    @property
    def runs(self) -> SortedRuns:
        """Opened when it is needed."""
        if self._runs is None:
            self._runs = self.state.open_runs("filed", LAYOUT)
        return self._runs


class Modelled(RuleBasedStateMachine):
    """The step; a subclass says with which backend, and in which store its checkpoints are."""

    backend: Callable[[], StateBackend]
    store: Callable[[], SnapshotStore]
    is_in_memory = True
    """Whether a frozen state needs neither the state that gave it nor its checkpoint any more."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.subtasks: list[Subtask] = []
        self.frozen: list[tuple[tuple[FrozenState, ...], Model]] = []
        self.opened = False
        self.checkpoints = type(self).store()
        self.number = 0

    @initialize(parallelism=st.integers(1, 3))
    def begin(self, parallelism: int) -> None:
        self._open(parallelism, ())

    @rule(rows=st.dictionaries(KEYS, st.tuples(TEXTS, st.none() | st.integers(0, 30)), min_size=1))
    def put(self, rows: dict[int, tuple[str, int | None]]) -> None:
        self._put(rows)

    def _put(self, rows: dict[int, tuple[str, int | None]]) -> None:
        untils = [until for _, until in rows.values()]
        frame = _keyed(rows).with_columns(
            text=pl.Series([text for text, _ in rows.values()], dtype=pl.String)
        )
        if any(until is not None for until in untils):
            frame = frame.with_columns(pl.Series(EXPIRY, untils, pl.Int64))
        for subtask, part in self._dealt(frame):
            # As operators do: what is put was asked for before.
            subtask.table.find(part[KEY])
            subtask.table.put(part.drop("k"))
        self.model.rows |= rows

    @rule(rows=st.lists(st.tuples(KEYS, TEXTS), min_size=1))
    def add_new(self, rows: list[tuple[int, str]]) -> None:
        keys = [key for key, _ in rows]
        there = self.model.known(keys)
        frame = _keyed(keys).with_columns(
            text=pl.Series([text for _, text in rows], dtype=pl.String),
        )
        kept: dict[int, tuple[str, int | None]] = {}
        for subtask, part in self._dealt(frame):
            numbers = subtask.table.add(part.drop("k"))
            assert numbers.is_sorted()
            kept |= {row["k"]: (row["text"], None) for row in part[numbers].to_dicts()}
        firsts = {key: (text, None) for key, text in reversed(rows) if key not in there}
        assert kept == firsts
        self.model.rows |= firsts

    @rule(keys=st.lists(KEYS, min_size=1))
    def find(self, keys: list[int]) -> None:
        found: dict[int, str | None] = {}
        for subtask, part in self._dealt(_keyed(keys)):
            rows = subtask.table.find(part[KEY])
            assert rows[KEY_INDEX].is_sorted()
            assert rows[KEY].equals(part[KEY][rows[KEY_INDEX]])
            found |= dict(zip(part["k"][rows[KEY_INDEX]], rows["text"], strict=True))
        assert found == self.model.known(keys)

    @rule(keys=st.lists(KEYS, min_size=1))
    def remove(self, keys: list[int]) -> None:
        self._remove(keys)

    def _remove(self, keys: list[int]) -> None:
        for subtask, part in self._dealt(_keyed(keys)):
            subtask.table.remove(part[KEY])
        for key in keys:
            self.model.rows.pop(key, None)

    @rule(by=st.integers(0, 6))
    def forget(self, by: int) -> None:
        self.model.now_us = max(self.model.now_us, 0) + by
        for subtask in self.subtasks:
            subtask.table.expire(self.model.now_us)
            subtask.state.clock_us = self.model.now_us

    @rule(rows=st.lists(st.tuples(KEYS, SLOTS, TEXTS), min_size=1, max_size=30))
    def add(self, rows: list[tuple[int, int, str]]) -> None:
        self._add(rows)

    def _add(self, rows: list[tuple[int, int, str]]) -> None:
        frame = pl.DataFrame(
            rows, schema={"k": pl.Int64, SLOT: pl.Int64, "s": pl.String}, orient="row"
        )
        states = frame.group_by("k", SLOT).agg(pl.len().cast(pl.Int64).alias("n"), all=pl.col("s"))
        for subtask, part in self._dealt(states):
            subtask.runs.add(part)
        for key, slot, text in rows:
            self.model.filed[key, slot].append(text)

    @rule(until=SLOTS)
    def take(self, until: int) -> None:
        taken = _filed(subtask.runs.take(until) for subtask in self.subtasks)
        assert taken == self.model.between(-9, until)
        self.model.drop(until)

    @rule(after=SLOTS, until=SLOTS)
    def read(self, after: int, until: int) -> None:
        read = _filed(subtask.runs.read(after, until) for subtask in self.subtasks)
        assert read == self.model.between(after, until)

    @rule(until=SLOTS)
    def drop(self, until: int) -> None:
        for subtask in self.subtasks:
            subtask.runs.drop(until)
        self.model.drop(until)

    @rule(keys=st.lists(KEYS, min_size=1, unique=True), after=SLOTS)
    def look_up(self, keys: list[int], after: int) -> None:
        parts = [(s, part.select("k")) for s, part in self._dealt(_keyed(keys))]
        found = (subtask.runs.read_keys(part, after) for subtask, part in parts)
        frames = [merged(frame) for frame in found if frame is not None]
        filed = self.model.between(after, 99)
        assert _filed(frames) == {at: texts for at, texts in filed.items() if at[0] in keys}

    @rule(keys=st.lists(KEYS, min_size=1, unique=True))
    def take_keys(self, keys: list[int]) -> None:
        taken = _filed(s.runs.take_keys(part.select("k")) for s, part in self._dealt(_keyed(keys)))
        filed = self.model.between(-9, 99)
        assert taken == {at: texts for at, texts in filed.items() if at[0] in keys}
        for at in taken:
            del self.model.filed[at]

    @rule()
    def be_late(self) -> None:
        self.subtasks[0].state.counters.late += 1
        self.model.late += 1

    @precondition(lambda self: self.is_in_memory)
    @rule()
    def freeze(self) -> None:
        frozen = tuple(subtask.state.freeze() for subtask in self.subtasks)
        self.frozen.append((frozen, deepcopy(self.model)))

    @rule(
        meanwhile=st.dictionaries(KEYS, st.tuples(TEXTS, st.none()), min_size=1),
        slot=SLOTS,
    )
    def checkpoint(self, meanwhile: dict[int, tuple[str, int | None]], slot: int) -> None:
        """Frozen, changed, and only then stored."""
        frozen = [subtask.state.freeze() for subtask in self.subtasks]
        model = deepcopy(self.model)
        self._put(meanwhile)
        self._add([(key, slot, text) for key, (text, _) in meanwhile.items()])
        self._remove(list(meanwhile)[::2])
        documents = [each.persist(self.checkpoints) for each in frozen]
        self.number += 1
        self.checkpoints.commit(self.number, build_blob_manifest(states={"step": [documents]}))
        self.checkpoints.collect([self.number] if self.is_in_memory else range(self.number + 1))
        self.frozen.append((self._thawed(self.number), model))

    @rule(is_stored=st.booleans())
    def give_up(self, is_stored: bool) -> None:
        """A checkpoint that failed, before it was stored or after."""
        for subtask in self.subtasks:
            frozen = subtask.state.freeze()
            if is_stored:
                frozen.persist(self.checkpoints)
            else:
                frozen.release()
        self.checkpoints.collect(self.checkpoints.list_checkpoints())

    @precondition(lambda self: self.frozen)
    @rule(parallelism=st.integers(1, 5), data=st.data())
    def reopen(self, parallelism: int, data: st.DataObject) -> None:
        frozen, model = data.draw(st.sampled_from(self.frozen))
        self.model = deepcopy(model)
        for subtask in self.subtasks:
            subtask.state.close()
        self._open(parallelism, frozen)

    @rule()
    def open_all(self) -> None:
        self.opened = True

    @invariant()
    def first_is_known(self) -> None:
        if self.opened:
            firsts = [subtask.runs.get_first_slot() for subtask in self.subtasks]
            least = min((first for first in firsts if first is not None), default=None)
            assert least == min((slot for _, slot in self.model.filed), default=None)

    @invariant()
    def counts_are_kept(self) -> None:
        assert sum(subtask.state.counters.late for subtask in self.subtasks) == self.model.late

    @precondition(lambda self: self.frozen)
    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        frozen, model = data.draw(st.sampled_from(self.frozen))
        rows: dict[str, str] = {}
        for each in frozen:
            for groups in (range(3), range(3, GROUPS)):
                table = each.read_table("rows", groups)
                if table is not None:
                    rows |= dict(zip(table[KEY], table["text"], strict=True))
        known, every = model.known(model.rows), {k: text for k, (text, _) in model.rows.items()}
        # A state that was not opened may still return rows that have expired since.
        assert _by_key(known).items() <= rows.items() <= _by_key(every).items()
        filed = [frame for each in frozen for frame in each.read_runs("filed", range(GROUPS))]
        assert all(frame[SLOT].is_sorted() for frame in filed)
        assert _filed(merged(frame) for frame in ([pl.concat(filed)] if filed else [])) == (
            model.between(-9, 99)
        )

    def teardown(self) -> None:
        for subtask in self.subtasks:
            subtask.state.close()

    def _open(self, parallelism: int, restored: tuple[FrozenState, ...]) -> None:
        self.subtasks = []
        self.opened = False
        for index in range(parallelism):
            owner = StateOwnership(
                "step", index, compute_owned_groups(index, parallelism, GROUPS), GROUPS, restored
            )
            state = type(self).backend().open_state(owner)
            assert not restored or state.clock_us in {each.clock_us for each in restored}
            self.subtasks.append(Subtask(owner.groups, state, self.model))

    def _thawed(self, number: int) -> tuple[FrozenState, ...]:
        """Return what a new run finds in a checkpoint."""
        backend = type(self).backend()
        manifest: Any = self.checkpoints.read_manifest(number)
        (documents,) = manifest["states"]["step"]
        return tuple(backend.thaw(document, self.checkpoints) for document in documents)

    def _dealt(self, frame: pl.DataFrame) -> list[tuple[Subtask, pl.DataFrame]]:
        """The rows of each subtask that has some."""
        groups = compute_row_groups(frame, ["k"], GROUPS)
        parts = [
            (subtask, frame.filter(groups.is_in(list(subtask.groups)))) for subtask in self.subtasks
        ]
        return [(subtask, part) for subtask, part in parts if part.height]


def _keyed(keys: Iterable[int]) -> pl.DataFrame:
    frame = pl.DataFrame({"k": pl.Series(list(keys), dtype=pl.Int64)})
    return frame.with_columns(encode_keys(frame).alias(KEY))


def _by_key(texts: dict[int, str]) -> dict[str, str]:
    return dict(zip(_keyed(texts)[KEY], texts.values(), strict=True))


def _filed(frames: Iterable[pl.DataFrame | None]) -> dict[tuple[int, int], list[str]]:
    """The rows of these frames, each key and slot once."""
    rows = [row for frame in frames if frame is not None for row in frame.iter_rows(named=True)]
    assert all(row["n"] == len(row["all"]) for row in rows)
    found = {(row["k"], row[SLOT]): sorted(row["all"]) for row in rows}
    assert len(found) == len(rows)
    return found
