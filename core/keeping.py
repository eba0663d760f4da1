"""The checkpoint storage of a job and its rules: where, how often, and what follows a failure.

Nothing here is asynchronous: what waits for a disk is called on the KernelExecutor.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from headrace.core import manifest
from headrace.core.checkpoints import Rhythm
from headrace.core.contracts import Commits, NoNotes, Notes
from headrace.core.history import History, Pauses
from headrace.core.manifest import Checkpoint
from headrace.core.messages import CheckpointFailed, CheckpointTaken, Keep
from headrace.core.news import News, Restarting
from headrace.core.pins import Pins
from headrace.core.plan import nodes
from headrace.core.restart import Restarts
from headrace.core.snapshots import Manifest, RefusedSnapshot, SnapshotError, SnapshotStore


@dataclass(slots=True)
class Keeping:
    """The checkpoint store of one job, its history and its rules."""

    store: SnapshotStore
    restarts: Restarts
    rhythm: Rhythm = field(default_factory=Rhythm)
    retain: int = 3
    aligned: bool = True
    """Whether inputs wait for each other's barriers, so that each row counts exactly once."""
    version: str = ""
    time: Callable[[], str] = str
    """Returns the wall-clock time as text for people."""
    tell: Callable[[News], None] = lambda news: None
    finish: Callable[[], None] = lambda: None
    """Called when all input was read and all output is committed."""
    note: Callable[[int], None] = lambda number: None
    """Records durably that all output of a checkpoint is committed."""
    noted: Callable[[], int | None] = lambda: None
    """Returns the last recorded checkpoint; its output may have been removed since."""
    notes: Notes = field(default_factory=NoNotes)
    """The storage in which sources and sinks record what must survive a crash."""
    begun: Callable[[], None] = lambda: None
    """Called when the first attempt is deployed: the run can no longer be refused."""
    resumed: int = 0
    """The checkpoint that the run resumed from."""
    anew: frozenset[str] = frozenset()
    """The steps and sources that start fresh after that checkpoint, but not after a later one."""
    now_us: Callable[[], int] = lambda: 0
    """Returns the wall-clock time for the history."""
    history: History = field(default_factory=History)
    pins: Pins = field(default_factory=Pins)
    """The checkpoints that stay because they are being read."""
    _bytes: int = 0
    _written: int = 0
    """The number of the last checkpoint that was written."""

    def last_number(self) -> int:
        """Return the number of the newest checkpoint, 0 if there is none."""
        return max(self.store.manifests(), default=0)

    def there(self) -> int:
        """Return the number of the newest checkpoint.

        Raises SnapshotError if a newer one is missing.
        """
        number, known = self.last_number(), max(self._written, self.resumed)
        if number < known:
            hint = "restore its folder: without it, output would be written twice"
            raise RefusedSnapshot(f"checkpoint {known} is missing from the job's home", hint)
        return number

    def highest_number(self) -> int:
        """Return the highest number of a checkpoint that exists or whose commits are recorded."""
        return max(self.last_number(), self.noted() or 0)

    def visible(self, number: int) -> None:
        """Record that all output up to this checkpoint is committed. Raises SnapshotError.

        After a return to an older checkpoint, the record of the newer ones remains.
        """
        if number > (self.noted() or 0):
            self.note(number)

    def write(self, keep: Keep, plan: nodes.Plan, base: Checkpoint | None) -> None:
        """Write a checkpoint; `base`: the one that the attempt resumed from.

        Raises SnapshotError.
        """
        document = manifest.written(keep, plan, self.version, self.time(), base)
        self.store.commit(keep.number, document)
        self._written = keep.number
        self.history.written(keep.number, document)
        # A failed cleanup does not invalidate the checkpoint.
        with suppress(SnapshotError):
            self.store.collect({*self.store.manifests()[-self.retain :], *self.pins.numbers})

    def newest(self, plan: nodes.Plan) -> Checkpoint | None:
        """Return the newest checkpoint. Raises SnapshotError."""
        number = self.there()
        if not number:
            return None
        fresh = self.anew if number <= self.resumed else ()
        return manifest.read(number, self.document(number), plan, fresh)

    @property
    def commits(self) -> Commits:
        """The times at which output is committed."""
        rhythm = self.rhythm
        longest_s = self.restarts.longest_s
        return Commits(rhythm.every_s, rhythm.timeout_s, longest_s)

    def document(self, number: int) -> Manifest:
        """Return the manifest of a checkpoint, without output that is recorded as committed."""
        document = self.store.manifest(number)
        noted = self.noted()
        is_visible = noted is not None and number <= noted
        return manifest.all_visible(document) if is_visible else document

    def told(self, news: News, pauses: Pauses | None = None) -> None:
        """Report an event, with the bytes that a checkpoint has added to the store."""
        if isinstance(news, CheckpointTaken):
            before, self._bytes = self._bytes, self.store.bytes_written
            news = replace(news, bytes=self._bytes - before)
        if isinstance(news, CheckpointTaken | CheckpointFailed):
            self.history.told(news, self.now_us(), pauses)
        elif isinstance(news, Restarting):
            self.history.restarts += 1
        self.tell(news)
