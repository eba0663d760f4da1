"""A job that writes into transactions, as a model: all that can come next, from any state.

The pool of ids and their record are the real ones. Around them is what the runtime guarantees of
checkpoints: handles are carried over when one fails, a barrier comes when all of the last one is
committed and that is recorded, and an attempt first commits the handles of the newest manifest,
records that, and then checks the sink. A crash may come between any two steps, also during the
start of a job; so may a
failure, which aborts what no manifest can name.

Each rule that the sink goes by can be broken on purpose: `RULES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from headrace.connectors.kafka.sink.transactional_ids import SlotPool, TransactionalIds
from tests.support.kafka.transaction_model import Broker, Row

SLOTS = 2
"""The initial ids of each subtask: a pool has to grow when a checkpoint has failed."""

Handle: TypeAlias = "tuple[int, int, str, int]"
"""A subtask, a slot, an id and an epoch."""
Positions: TypeAlias = "tuple[int, ...]"

RULES = {
    "committed is not free": "an id is free as soon as it is committed",
    "prepared is not free": "an id is free when the checkpoint has failed for which it prepared",
    "first commit, then initialise": "ids are initialised before the manifest's are committed",
    "first note, then initialise": "what was committed again is not noted before ids are used",
    "first record, then use": "the pool grows before that is on record",
    "initialise at the start": "what a dead attempt has left open is left to the broker",
    "ids of every parallelism": "only ids that this parallelism has are initialised",
    "mark every partition": "what the broker forgot to abort is left in its partitions",
    "ids of its own for each attempt": "and the same producer writes there again",
    "first commit, then trigger": "the next checkpoint does not wait for the last one's commits",
}


@dataclass(frozen=True, slots=True)
class Manifest:
    """The newest one that is complete."""

    at: Positions
    handles: tuple[Handle, ...]


@dataclass(frozen=True, slots=True)
class Writer:
    """One subtask's: its ids, and the transaction that is open."""

    pool: SlotPool
    open: Handle | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Taking:
    """A checkpoint: who has not answered, where splits are that were answered for."""

    waiting: tuple[int, ...]
    at: Positions
    behind: tuple[Handle, ...] = ()
    """Handles prepared at the end by subtasks that had answered already."""


@dataclass(frozen=True, slots=True)
class Process:
    """A run: what it still has to do before it reads, and what it does then."""

    subtasks: int
    phase: Literal["commit", "note", "initialise", "record", "run", "done"]
    todo: tuple[str, ...] = ()
    """The ids that are not initialised."""
    commits: tuple[Handle, ...] = ()
    writers: tuple[Writer, ...] = ()
    at: Positions = ()
    prepared: tuple[Handle, ...] = ()
    taking: Taking | None = None
    to_note: bool = False


@dataclass(frozen=True, slots=True)
class World:
    """The durable data, the running processes, and the number of faults still allowed."""

    broker: Broker = field(default_factory=Broker)
    manifest: Manifest | None = None
    noted: bool = False
    """Whether it is noted that its output is visible."""
    record: TransactionalIds | None = None
    process: Process | None = None
    crashes: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Steps:
    """The possible next steps; `parallelism` per life of the job; `broken` rules are violated."""

    rows: tuple[int, ...]
    """How many there are in each split."""
    parallelism: tuple[int, ...] = (1, 2, 1)
    crashes: int = 2
    failures: int = 1
    broken: frozenset[str] = field(default_factory=frozenset)
    forgetful: bool = False
    """Whether the broker reports aborts without notifying any partition."""
    marks: bool = True
    """Whether all partitions are known that may have been written to: not with topics of rows."""

    @property
    def all(self) -> tuple[Row, ...]:
        """The rows that must be visible at the end."""
        return tuple((split, row) for split, rows in enumerate(self.rows) for row in range(rows))

    def after(self, world: World) -> Iterator[World]:
        """Every world that may be next."""
        process = world.process
        if process is None:
            yield self._begun(world)
            return
        if process.phase == "done":
            return
        if process.phase == "run":
            yield from self._running(world, process)
        else:
            yield self._beginning(world, process)
        if world.crashes < self.crashes:
            yield replace(world, process=None, crashes=world.crashes + 1)
            if process.phase == "run":
                dead = replace(world, process=None, crashes=world.crashes + 1)
                yield replace(dead, broker=_aborted(world.broker, process))

    def _begun(self, world: World) -> World:
        subtasks = self.parallelism[world.crashes % len(self.parallelism)]
        manifest = world.manifest
        asked = manifest.handles if manifest and not world.noted else ()
        todo = self._ids(world.record, subtasks)
        if "first commit, then initialise" in self.broken:
            process = Process(subtasks, "initialise", todo, asked)
        else:
            process = Process(subtasks, "commit" if asked else "initialise", todo, asked)
        return replace(world, process=process)

    def _ids(self, record: TransactionalIds | None, subtasks: int) -> tuple[str, ...]:
        if record is None or "initialise at the start" in self.broken:
            return ()
        if "ids of every parallelism" in self.broken:
            record = replace(record, subtasks=min(subtasks, record.subtasks))
        return tuple(record.iterate_ids())

    def _beginning(self, world: World, process: Process) -> World:
        """Return the next step of a start, whose order is fixed."""
        if process.phase == "initialise" and process.todo:
            first, *todo = process.todo
            broker = world.broker.init(first)
            if self.marks and "mark every partition" not in self.broken:
                broker = broker.mark(first)
            return replace(world, broker=broker, process=replace(process, todo=tuple(todo)))
        late = "first commit, then initialise" in self.broken
        if process.phase == "initialise" and late and process.commits:
            return replace(world, process=replace(process, phase="commit"))
        if process.phase == "initialise":
            return replace(world, process=replace(process, phase="record"))
        if process.phase == "commit" and process.commits:
            return _committed(world, process)
        if process.phase == "commit":
            return replace(world, process=replace(process, phase="note"))
        if process.phase == "note":
            noted = "first note, then initialise" not in self.broken
            return replace(world, noted=noted, process=replace(process, phase="initialise"))
        return self._ready(world, process)

    def _ready(self, world: World, process: Process) -> World:
        """The record is written, and rows are read from where the manifest says."""
        record, broker = TransactionalIds("job", "sink", process.subtasks, SLOTS), world.broker
        if world.record is not None and "ids of its own for each attempt" not in self.broken:
            record = record.with_next_generation(world.record)
            broker = broker.without(
                set(world.record.iterate_ids()).difference(broker.open, broker.hanging)
            )
        at = world.manifest.at if world.manifest else (0,) * len(self.rows)
        writers = (Writer(SlotPool.of_size(SLOTS)),) * process.subtasks
        ready = Process(process.subtasks, "run", writers=writers, at=at)
        return replace(world, broker=broker, record=record, process=ready)

    def _running(self, world: World, process: Process) -> Iterator[World]:
        for number in range(process.subtasks):
            if not process.writers[number].ended:
                yield from self._of_writer(world, process, number)
        taking = process.taking
        may = "first commit, then trigger" in self.broken or not (
            process.commits or process.to_note
        )
        if taking is None and may:
            yield self._triggered(world, process)
        if taking is not None:
            if not taking.waiting:
                yield _kept(world, process, taking)
            if world.failures < self.failures:
                yield self._failed(world, process, taking)
        if process.commits:
            yield self._freed(_committed(world, process))
        elif process.to_note:
            noted = replace(_freeing_committed(process), to_note=False)
            yield self._over(replace(world, noted=True, process=noted))

    def _of_writer(self, world: World, process: Process, number: int) -> Iterator[World]:
        """Yield the possible steps of one subtask."""
        left = [s for s in _splits(process, number) if process.at[s] < self.rows[s]]
        writer = process.writers[number]
        if left and writer.open is None:
            yield self._opened(world, process, number)
        elif left:
            for split in left:
                yield _written(world, process, number, split)
        else:
            yield _prepared(world, process, number, ended=True)
        # What opens a transaction writes a row into it before it listens to anything else.
        begun = writer.open is None or writer.open[2] in world.broker.open
        if process.taking is not None and number in process.taking.waiting and left and begun:
            yield _prepared(world, process, number, ended=False)

    def _opened(self, world: World, process: Process, number: int) -> World:
        """A step towards an open transaction: a larger record, a larger pool, or itself."""
        writer, record = process.writers[number], world.record
        assert record is not None
        slot = writer.pool.free_slot
        if slot is None:
            full = len(writer.pool.slots) == record.slots
            if full and "first record, then use" not in self.broken:
                return replace(world, record=record.with_one_more_slot())
            grown = replace(writer, pool=writer.pool.with_one_more())
            return replace(world, process=_with(process, number, grown))
        id = record.format_id(number, slot)
        broker = world.broker.init(id)
        opened = Writer(writer.pool.open_slot(slot), (number, slot, id, broker.epoch(id)))
        return replace(world, broker=broker, process=_with(process, number, opened))

    def _triggered(self, world: World, process: Process) -> World:
        waiting = tuple(n for n in range(process.subtasks) if not process.writers[n].ended)
        taking = Taking(waiting, process.at)
        return replace(world, process=replace(process, taking=taking))

    def _failed(self, world: World, process: Process, taking: Taking) -> World:
        """The checkpoint comes to nothing; what was prepared for it travels on."""
        prepared = (*process.prepared, *taking.behind)
        after = replace(process, taking=None, prepared=prepared)
        if "prepared is not free" in self.broken:
            after = _freeing_prepared(after)
        return replace(world, process=after, failures=world.failures + 1)

    def _freed(self, world: World) -> World:
        if "committed is not free" in self.broken and world.process is not None:
            return replace(world, process=_freeing_committed(world.process))
        return world

    def _over(self, world: World) -> World:
        """The end, if all rows are in the manifest that is noted."""
        process, manifest = world.process, world.manifest
        assert process is not None and manifest is not None
        ended = all(writer.ended for writer in process.writers)
        if not ended or manifest.at != self.rows or process.prepared or process.taking:
            return world
        return replace(world, process=replace(process, phase="done", writers=()))


def _splits(process: Process, number: int) -> list[int]:
    return [split for split in range(len(process.at)) if split % process.subtasks == number]


def _with(process: Process, number: int, writer: Writer) -> Process:
    writers = list(process.writers)
    writers[number] = writer
    return replace(process, writers=tuple(writers))


def _freeing_prepared(process: Process) -> Process:
    """With the slots of prepared transactions free, as they must not be."""

    def freed(writer: Writer) -> Writer:
        own = writer.open[1] if writer.open is not None else None
        slots = writer.pool.slots
        after = ("free" if s == "open" and at != own else s for at, s in enumerate(slots))
        return replace(writer, pool=SlotPool(tuple(after)))

    return replace(process, writers=tuple(freed(writer) for writer in process.writers))


def _freeing_committed(process: Process) -> Process:
    """With the slots of committed transactions free: once that is recorded, not before."""
    writers = tuple(replace(each, pool=each.pool.free_committed()) for each in process.writers)
    return replace(process, writers=writers)


def _written(world: World, process: Process, number: int, split: int) -> World:
    opened = process.writers[number].open
    assert opened is not None
    _, _, id, epoch = opened
    broker = world.broker.write(id, epoch, (split, process.at[split]))
    at = tuple(place + (s == split) for s, place in enumerate(process.at))
    return replace(world, broker=broker, process=replace(process, at=at))


def _prepared(world: World, process: Process, number: int, *, ended: bool) -> World:
    """A subtask comes to a barrier, or to its end, and takes that for the barrier if one comes."""
    writer, taking = process.writers[number], process.taking
    handles = () if writer.open is None else (writer.open,)
    after = _with(process, number, Writer(writer.pool, None, ended))
    if taking is None:
        return replace(world, process=replace(after, prepared=(*process.prepared, *handles)))
    if number not in taking.waiting:
        taking = replace(taking, behind=(*taking.behind, *handles))
        return replace(world, process=replace(after, taking=taking))
    mine = _splits(process, number)
    at = tuple(process.at[s] if s in mine else taking.at[s] for s in range(len(taking.at)))
    waiting = tuple(n for n in taking.waiting if n != number)
    taking = replace(taking, waiting=waiting, at=at)
    prepared = (*process.prepared, *handles)
    return replace(world, process=replace(after, taking=taking, prepared=prepared))


def _kept(world: World, process: Process, taking: Taking) -> World:
    """The manifest is there."""
    manifest = Manifest(taking.at, process.prepared)
    after = replace(
        process,
        taking=None,
        prepared=taking.behind,
        commits=(*process.commits, *process.prepared),
        to_note=True,
    )
    return replace(world, manifest=manifest, noted=False, process=after)


def _committed(world: World, process: Process) -> World:
    """The next of the handles that are to be committed."""
    handle, *left = process.commits
    number, slot, id, epoch = handle
    broker = world.broker.end(id, epoch, commit=True)
    after = replace(process, commits=tuple(left))
    if process.phase == "run":
        writer = process.writers[number]
        after = _with(after, number, replace(writer, pool=writer.pool.commit_slot(slot)))
    return replace(world, broker=broker, process=after)


def _aborted(broker: Broker, process: Process) -> Broker:
    """List the transactions that a failure aborts: open ones, and those without a manifest."""
    opened = [writer.open for writer in process.writers if writer.open is not None]
    keeping = process.taking is not None and not process.taking.waiting
    for _, _, id, epoch in (*opened, *(() if keeping else process.prepared)):
        if dict(broker.ids)[id].state == "open":
            broker = broker.end(id, epoch, commit=False)
    return broker
