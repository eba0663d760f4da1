"""The contract of keyed state: what operators write and read, and what the state folder implements.

A subtask of a stateful step has one `StepState`. It is made of named states of two shapes:

    Runs    columns filed under a time. Rows are only ever added, in frames; pieces of the same are
            merged by and by; what is due is taken in one go, or read and dropped later. Windows.
    Table   one row a key, found and replaced in bulk. Running aggregates, dedup.

Beside them an operator may keep *entries*, rows that are of no key, such as where a reader is. At a
restart those of all subtasks are dealt out as their `Spread` says.

Keys are divided into key groups (`core/keygroups`), and a backend can hand out, and take back, the
state of any range of them; so both shapes know which columns are the key. Frames that go in are
never changed afterwards, so that a generation is frozen by keeping references: `freeze` takes
constant time, and what it gave stays as it was while the live state goes on. A string column of a
frame may hold a whole batch in memory: backends copy what they keep.

What was frozen can be stored, in a thread while the step goes on: what the snapshot store has
already is named again, and what it lacks is put. The document that comes of it says the rest, and
is thawed by a backend of the same kind. `freeze` waits for whoever still stores the generation
before: who calls it sees to that.

The clock and the counts of a step are state as well: a row that was late before a crash is late
after it, and is counted once. A frozen state has one clock, and who restores several whose clocks
differ divides what it owns (`core/owner`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.core.alignment import BEGINNING_US
from headrace.core.sizes import Size

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.owner import Owner
    from headrace.core.snapshots import SnapshotStore

SLOT = "__slot"
"""The column of runs that says under which time a row is filed (bigint)."""

KEY = "__key"
"""The column of a table that holds a row's key, encoded as one string."""

ASKED = "__asked"
"""The column of found rows that says which of the keys asked for it is the row of, from 0 (int)."""

UNTIL = "__until"
"""The column of a table that says until when a row is remembered (bigint); absent: for ever."""

Merge: TypeAlias = "Callable[[pl.DataFrame], pl.DataFrame]"
"""Puts together the rows that belong together; associative, and it keeps the columns.

What was put together is filed under the latest of its times. So rows may be filed later than they
were, and never earlier; and merging all rows of some stretch of time files them within it. Frames
are sorted after it.
"""


Document: TypeAlias = "Mapping[str, object]"
"""What was stored of a step's state: plain data as JSON has it, which names blobs."""


@dataclass(frozen=True, slots=True)
class RunsLayout:
    """What a state of runs is opened with: its columns, which of them are the key, the merge.

    `columns` names and types all columns but SLOT. A step without key has none, and all of it is in
    the group of the empty key.
    """

    columns: Mapping[str, pl.DataType]
    key: tuple[str, ...]
    merge: Merge


class Runs(Protocol):
    """Columns filed under times. Every frame has the columns of the layout, and SLOT."""

    def add(self, frame: pl.DataFrame) -> None:
        """File these rows; empty frames are nothing."""
        ...

    def first(self) -> int | None:
        """The least time under which something is filed."""
        ...

    def take(self, until: int) -> pl.DataFrame | None:
        """Everything filed under times up to this one, merged, and forget it; None if nothing."""
        ...

    def read(self, after: int, until: int) -> pl.DataFrame | None:
        """Everything filed under times behind the first and up to the second, merged, and kept."""
        ...

    def drop(self, until: int) -> None:
        """Forget everything filed under times up to this one."""
        ...

    def of_keys(self, keys: pl.DataFrame, after: int) -> pl.DataFrame | None:
        """What is filed of those keys behind that time, kept; perhaps not merged."""
        ...

    def take_keys(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Everything that is filed of those keys, merged, and forget it; None if nothing.

        `keys` has the columns of the key, each key once. Of a state without key it is everything.
        """
        ...

    def owed(self, *, asking: bool) -> int:
        """About how many rows the next call works on that were there before; nearly always 0.

        That is what earlier calls with few rows have put off. The call is `add`, or with `asking`
        one that asks for few keys, which has more to do if nobody has for a while.
        """
        ...

    @property
    def rows(self) -> int:
        """About how many rows are kept, merged or not."""
        ...


class Table(Protocol):
    """One row a key. Every frame has KEY (never null), the opened columns, perhaps UNTIL."""

    def find(self, keys: pl.Series) -> pl.DataFrame:
        """The rows of those keys that are there, in the order of the keys, with ASKED."""
        ...

    def put(self, frame: pl.DataFrame) -> None:
        """Keep these rows (each key once), each in the place of its key's earlier one."""
        ...

    def add(self, frame: pl.DataFrame) -> pl.Series:
        """Keep the rows whose keys are not there, of those of one key the first.

        Tells which they are: their numbers in the frame, in order.
        """
        ...

    def remove(self, keys: pl.Series) -> None:
        """Forget these keys; those that are not there are no mistake."""
        ...

    def forget(self, now_us: int) -> None:
        """Forget the rows whose UNTIL has passed: now is later. `find` never shows them again."""
        ...

    def owed(self, now_us: int) -> int:
        """About how many rows `forget` of that time, and the next `put`, work on beside theirs.

        That is what earlier calls with few rows have put off; nearly always 0.
        """
        ...

    @property
    def rows(self) -> int:
        """How many keys there are; some of them may be past their UNTIL."""
        ...


class Entries(Protocol):
    """Rows that are of no key; frames are never changed, but put in the place of others."""

    rows: pl.DataFrame | None
    """What is kept, of the same columns in all subtasks; None: nothing."""


@dataclass(slots=True)
class Counts:
    """What a step did with rows beside putting them out; kept through restarts."""

    late: int = 0
    """Rows that came behind the watermark, too late for every window of theirs."""
    unfilled: int = 0
    """Rows in count windows that never filled."""


class Spread(StrEnum):
    """Who has the entries of all subtasks after a restart."""

    LIST = "list"
    """Each has an even share of them, in their order."""
    UNION = "union"
    """Each has all of them."""
    BROADCAST = "broadcast"
    """All had the same, and each has those."""
    GROUPS = "groups"
    """Each has those of who had its first key group: as far as the clock of its groups has come."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Which shape a state has, and which columns say of what key group a row is."""

    is_table: bool
    key: tuple[str, ...] | None
    """None: a table whose rows are of the groups of their KEYs, or entries."""
    spread: Spread | None = None
    """Only entries have one."""


class Frozen(Protocol):
    """A step's state as it was at one instant: immutable, and readable while the step goes on.

    One that a state gave, rather than a backend, may be readable only until it is stored or
    released.
    """

    @property
    def groups(self) -> range:
        """The key groups that it has the state of."""
        ...

    @property
    def names(self) -> frozenset[str]:
        """The names of the runs and tables that it has."""
        ...

    @property
    def clock_us(self) -> int:
        """The step's clock for these key groups."""
        ...

    @property
    def counts(self) -> Counts:
        """The step's counts."""
        ...

    def shape(self, name: str) -> Shape:
        """What that state is; the name is one of `names`."""
        ...

    def runs(self, name: str, groups: range) -> Sequence[pl.DataFrame]:
        """The frames of that state, reduced to the keys of those key groups; each sorted by SLOT.

        A name that was not opened has none.
        """
        ...

    def table(self, name: str, groups: range) -> pl.DataFrame | None:
        """The rows of that state, reduced to the keys of those key groups; None if none."""
        ...

    def entries(self, name: str) -> pl.DataFrame | None:
        """The entries of that name; None if none."""
        ...

    def stored(self, store: SnapshotStore) -> Document:
        """Have all of it in the store, and tell of it; once, in any thread. Raises SnapshotError.

        What the store still has of earlier generations is not put again.
        """
        ...

    def release(self) -> None:
        """Nobody needs it, nor will store it. After this or `stored` the next `freeze` may come."""
        ...


class StepState(Protocol):
    """The state of one subtask of one step."""

    clock_us: int
    """The watermark that the step has reached; operators read and set it."""
    counts: Counts
    beside: dict[str, Callable[[], Size]]
    """By name of a state, what an operator has that it is going to file there; for `sizes`."""

    def runs(self, name: str, layout: RunsLayout) -> Runs:
        """Open a state of runs; each name once, whether of runs or of a table.

        Some operators open theirs when the first rows come; what is not opened is kept as well.
        """
        ...

    def table(
        self, name: str, columns: Mapping[str, pl.DataType], group: tuple[str, ...] | None = None
    ) -> Table:
        """Open a table. `columns` are all but KEY and UNTIL.

        A row is of the key group of its KEY. Where KEY says more than the step's key (a key and a
        number, say), `group` names the columns that are the step's key; () is that of no key.
        """
        ...

    def entries(self, name: str, spread: Spread) -> Entries:
        """Open entries, with those that fall to this subtask; each name once."""
        ...

    def columns(self, name: str) -> Mapping[str, pl.DataType] | None:
        """The columns with which a state can be opened that was restored; None if it has no rows.

        For operators that otherwise learn their columns from their first rows: time may end what is
        kept before there are any.
        """
        ...

    def sizes(self) -> Mapping[str, Size]:
        """How much is kept of each state that is open; it takes hardly any time.

        Of all methods this one alone may be called while another one runs in a thread. It may tell
        of what was a moment ago.
        """
        ...

    def freeze(self) -> Frozen:
        """What is kept now, in constant time."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class StateBackend(Protocol):
    """Where state lives."""

    def open(self, owner: Owner) -> StepState:
        """The state of a subtask of a step; it is closed by whoever opened it."""
        ...

    def thawed(self, document: Document, store: SnapshotStore) -> Frozen:
        """What was stored, for `Owner.restored`. Raises SnapshotError, DamagedSnapshot for one.

        It may read lazily, and may be read in any thread.
        """
        ...


NO_CLOCK_US = BEGINNING_US
"""The clock of a step that has heard of no time yet."""
