"""The contract of keyed state between operators, which use it, and state backends.

Each subtask of a stateful step has one `StepState`. It holds named states of two shapes:

    SortedRuns    rows filed under a time. Rows are only added, in frames; runs are merged in the
                  background; ended slots are taken in one go, or read and dropped later. Windows.
    KeyedTable    one row per key, found and replaced in bulk. Running aggregates, dedup.

In addition, an operator may store *entries*: rows without a key, such as the positions of a reader.
A restart redistributes the entries of all subtasks by their `Redistribution`.

Keys are divided into key groups (`types/key_groups`), the units of rescaling: a backend can export
and import the state of any range of them, so both shapes know which columns are the key.

Checkpoints: `freeze` returns an immutable `FrozenState` in constant time, by keeping references:
frames are never modified after they are added. A thread then stores the frozen state while the step
resumes. Blobs that the snapshot store already has are referenced again, the others are put; the
resulting document is thawed by a backend of the same kind. Only one frozen state may be unstored at
a time: the caller of `freeze` waits until the one before was stored or released. A string column
may keep a whole batch in memory, so backends copy the rows they retain.

The clock and the counters of a step are state as well: a row that was late before a crash is late
after it, and is counted once. A frozen state has one clock; if restored states differ in their
clocks, each gets a state of its own (`StateOwnership.split_by_clock`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state_sizes import StateSize
from headrace.core.api.user_metrics import MetricValues, add_values
from headrace.core.types.elements import MIN_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


SLOT = "__slot"
"""The column of runs with the time under which a row is filed (bigint)."""


KEY = "__key"
"""The column of a table with the row's key, encoded as one string."""


KEY_INDEX = "__asked"
"""The column of found rows with the index of the row's key among the requested keys (int)."""


EXPIRY = "__until"
"""The column of a table with the time at which a row expires (bigint); absent: never."""


MergeFunction: TypeAlias = "Callable[[pl.DataFrame], pl.DataFrame]"
"""Merges the rows that belong together into one row each; associative, with the same columns.

A merged row is filed under the latest of its rows' times: never earlier than any of them, and
within the interval that was merged. The backend sorts the result.
"""


Document: TypeAlias = "Mapping[str, object]"
"""Plain JSON data that describes a stored state and names its blobs."""


@dataclass(frozen=True, slots=True)
class RunsLayout:
    """The columns of a state of runs, the columns that form the key, and the merge function.

    `columns` has the names and types of all columns but SLOT. The key of a step without key is
    empty, and all of its rows belong to the key group of the empty key.
    """

    columns: Mapping[str, pl.DataType]
    key: tuple[str, ...]
    merge: MergeFunction


class SortedRuns(Protocol):
    """Rows filed under times (slots). Every frame has the columns of the layout, and SLOT."""

    def add(self, frame: pl.DataFrame) -> None:
        """File rows; an empty frame has no effect."""
        ...

    def get_first_slot(self) -> int | None:
        """Return the earliest slot that has rows."""
        ...

    def take(self, until: int) -> pl.DataFrame | None:
        """Remove and return all rows of slots up to `until`, merged; None if there are none."""
        ...

    def read(self, after: int, until: int) -> pl.DataFrame | None:
        """Return all rows of slots after `after` and up to `until`, merged; they stay stored."""
        ...

    def drop(self, until: int) -> None:
        """Remove all rows of slots up to `until`."""
        ...

    def compact(self) -> None:
        """Merge the rows in memory, so that reading all of them does not merge them each time."""
        ...

    def read_keys(self, keys: pl.DataFrame, after: int) -> pl.DataFrame | None:
        """Return the rows of these keys in slots after `after`, perhaps unmerged; they stay."""
        ...

    def take_keys(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return all rows of these keys, merged; None if there are none.

        `keys` has the columns of the key, each key once. A state without key yields all its rows.
        """
        ...

    def estimate_deferred_rows(self, *, for_lookup: bool) -> int:
        """Estimate how many existing rows the next call has to process; nearly always 0.

        That is work that earlier calls with few rows have deferred. The call is `add`, or, with
        `for_lookup`, a read of few keys, which has more to do if there was none for a while.
        """
        ...

    @property
    def rows(self) -> int:
        """About how many rows are stored, merged or not."""
        ...


class KeyedTable(Protocol):
    """One row per key. Every frame has KEY (never null), the opened columns, perhaps EXPIRY."""

    def find(self, keys: pl.Series) -> pl.DataFrame:
        """Return the rows of these keys, in the order of the keys, with KEY_INDEX.

        Keys without a row are left out.
        """
        ...

    def put(self, frame: pl.DataFrame) -> None:
        """Insert or replace the rows of these keys; each key occurs once."""
        ...

    def add(self, frame: pl.DataFrame) -> pl.Series:
        """Insert the rows of new keys only, for each key the first; existing rows stay.

        Returns the indices in the frame of the inserted rows, in order.
        """
        ...

    def remove(self, keys: pl.Series) -> None:
        """Remove the rows of these keys; keys without a row are ignored."""
        ...

    def expire(self, now_us: int) -> None:
        """Expire the rows whose EXPIRY is before `now_us`: `find` never returns them again."""
        ...

    def estimate_deferred_rows(self, now_us: int) -> int:
        """Estimate how many more rows expiry at that time and the next `put` have to process.

        That is work that earlier calls with few rows have deferred; nearly always 0.
        """
        ...

    @property
    def rows(self) -> int:
        """The number of keys; some of them may have expired."""
        ...


class Entries(Protocol):
    """Rows without a key; a frame is never modified, only replaced by another."""

    rows: pl.DataFrame | None
    """The stored rows, with the same columns in all subtasks; None: no rows."""


@dataclass(slots=True)
class StepCounters:
    """Counters of a step, which survive restarts."""

    late: int = 0
    """Rows that arrived after the watermark had passed all their windows."""
    unfilled: int = 0
    """Rows in count windows that never filled."""
    metrics: MetricValues = field(default_factory=MetricValues)
    """The metrics of the step's user code."""

    def copy(self) -> StepCounters:
        """Return a copy that does not change."""
        return StepCounters(self.late, self.unfilled, self.metrics.copy())


def add_counters(each: Iterable[StepCounters]) -> StepCounters:
    """Add up counters."""
    counted = list(each)
    late, unfilled = sum(c.late for c in counted), sum(c.unfilled for c in counted)
    return StepCounters(late, unfilled, add_values(c.metrics for c in counted))


class Redistribution(StrEnum):
    """The ways to redistribute the entries of all subtasks at a restart."""

    LIST = "list"
    """Each subtask gets an even share, in order."""
    UNION = "union"
    """Each subtask gets the entries of all subtasks."""
    BROADCAST = "broadcast"
    """All subtasks had the same entries, and each gets those."""
    GROUPS = "groups"
    """Each subtask gets the entries of the one that owned its first key group, because they go with
    the clock of its key groups."""


@dataclass(frozen=True, slots=True)
class StateDescriptor:
    """The descriptor of a state: its shape, and the columns that determine a row's key group."""

    is_table: bool
    key: tuple[str, ...] | None
    """None: a table whose rows belong to the key groups of their KEYs, or entries."""
    redistribution: Redistribution | None = None
    """Set for entries only."""


class FrozenState(Protocol):
    """A step's state at one instant: immutable, and readable while the step resumes.

    A frozen state from `StepState.freeze` may be readable only until it is stored or released; one
    that a backend thawed stays readable.
    """

    @property
    def groups(self) -> range:
        """The key groups whose state it has."""
        ...

    @property
    def names(self) -> frozenset[str]:
        """The names of its runs and tables."""
        ...

    @property
    def clock_us(self) -> int:
        """The step's clock for these key groups."""
        ...

    @property
    def counters(self) -> StepCounters: ...

    def describe_state(self, name: str) -> StateDescriptor:
        """Return the descriptor of the state of that name, one of `names`."""
        ...

    def read_runs(self, name: str, groups: range) -> Sequence[pl.DataFrame]:
        """Return the frames of that state for the key groups; each frame is sorted by SLOT.

        A name that was not opened has no frames.
        """
        ...

    def read_table(self, name: str, groups: range) -> pl.DataFrame | None:
        """Return the rows of that state for the key groups; None if there are none."""
        ...

    def read_entries(self, name: str) -> pl.DataFrame | None:
        """Return the entries of that name; None if there are none."""
        ...

    def persist(self, store: SnapshotStore) -> Document:
        """Put all of the state into the store, and return the document to thaw it from.

        Called once, in any thread. Blobs that the store already has are not put again. Raises
        SnapshotError.
        """
        ...

    def release(self) -> None:
        """Give the state up without storing it.

        After this, or after storing it, `freeze` may be called again.
        """
        ...


class StepState(Protocol):
    """The state of one subtask of one step."""

    clock_us: int
    """The watermark that the step has reached; operators read and set it."""
    counters: StepCounters
    buffered_sizes: dict[str, Callable[[], StateSize]]
    """The size of what operators have buffered, by name of a state; `measure_sizes` includes it."""

    def open_runs(self, name: str, layout: RunsLayout) -> SortedRuns:
        """Open a state of runs; a name may be opened once, as runs or as a table.

        An operator may open its state when its first rows arrive; a restored state that is never
        opened is stored again by the next checkpoint.
        """
        ...

    def open_table(
        self, name: str, columns: Mapping[str, pl.DataType], group: tuple[str, ...] | None = None
    ) -> KeyedTable:
        """Open a table. `columns` has all columns but KEY and EXPIRY.

        A row belongs to the key group of its KEY. If KEY contains more than the step's key, such as
        a key and a number, `group` names the columns of the step's key; () is the empty key.
        """
        ...

    def open_entries(self, name: str, spread: Redistribution) -> Entries:
        """Open entries, starting with this subtask's share of the restored ones; a name once."""
        ...

    def get_restored_columns(self, name: str) -> Mapping[str, pl.DataType] | None:
        """Return the columns to open a restored state with; None if the state has no rows.

        For operators that otherwise learn their columns from their first rows: timers of restored
        state may be due before any row arrives.
        """
        ...

    def measure_sizes(self) -> Mapping[str, StateSize]:
        """Return the size of each open state, at hardly any cost.

        This method alone may be called while another one runs in a thread; its result may then be
        slightly out of date.
        """
        ...

    def freeze(self) -> FrozenState:
        """Return the current state as an immutable snapshot, in constant time."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


NO_CLOCK_US = MIN_WATERMARK_US
"""The clock of a step that has received no watermark yet."""
