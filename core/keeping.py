"""What a job is kept with, so that it can go on: where, how often, and what follows a failure.

Nothing here is asynchronous: what waits for a disk is called on the bench.
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
    """The store of one job, and its rules."""

    store: SnapshotStore
    restarts: Restarts
    rhythm: Rhythm = field(default_factory=Rhythm)
    retain: int = 3
    aligned: bool = True
    """Whether inputs wait for each other's barriers, so that each row counts exactly once."""
    version: str = ""
    time: Callable[[], str] = str
    """The time by the wall clock, as it is told to people."""
    tell: Callable[[News], None] = lambda news: None
    finish: Callable[[], None] = lambda: None
    """Called when all has been read, put out and committed."""
    note: Callable[[int], None] = lambda number: None
    """Called when all output of a checkpoint is visible: not to be forgotten."""
    noted: Callable[[], int | None] = lambda: None
    """The last that was noted: what was visible then may have been taken away since."""
    notes: Notes = field(default_factory=NoNotes)
    """Where sources and sinks note what they must not forget."""
    begun: Callable[[], None] = lambda: None
    """Called when the first attempt has been deployed, and nothing is refused any more."""
    resumed: int = 0
    """The checkpoint that a run began with."""
    anew: frozenset[str] = frozenset()
    """The steps and sources that begin anew behind that one; a later one has what they kept."""
    now_us: Callable[[], int] = lambda: 0
    """The time by the wall clock, for the history."""
    history: History = field(default_factory=History)
    pins: Pins = field(default_factory=Pins)
    """The checkpoints that stay because somebody reads them."""
    _bytes: int = 0
    _written: int = 0
    """The last checkpoint that was written."""

    def last_number(self) -> int:
        """The number of the newest checkpoint, 0 if there is none."""
        return max(self.store.manifests(), default=0)

    def there(self) -> int:
        """The number of the newest checkpoint. Raises SnapshotError if there should be another."""
        number, known = self.last_number(), max(self._written, self.resumed)
        if number < known:
            hint = "put its folder back: without it, what was written would be written again"
            raise RefusedSnapshot(f"checkpoint {known} is gone from the job's home", hint)
        return number

    def highest_number(self) -> int:
        """The highest that a checkpoint ever had of whose output anything is known."""
        return max(self.last_number(), self.noted() or 0)

    def visible(self, number: int) -> None:
        """All output up to that of this checkpoint is visible. Raises SnapshotError.

        Those before an older one that somebody went back to stay so.
        """
        if number > (self.noted() or 0):
            self.note(number)

    def write(self, keep: Keep, plan: nodes.Plan, behind: Checkpoint | None) -> None:
        """Make it a checkpoint; `behind`: what the attempt began with. Raises SnapshotError."""
        document = manifest.written(keep, plan, self.version, self.time(), behind)
        self.store.commit(keep.number, document)
        self._written = keep.number
        self.history.written(keep.number, document)
        # It is there: that rubbish stays is no reason to say that it is not.
        with suppress(SnapshotError):
            self.store.collect({*self.store.manifests()[-self.retain :], *self.pins.numbers})

    def newest(self, plan: nodes.Plan) -> Checkpoint | None:
        """The newest checkpoint. Raises SnapshotError."""
        number = self.there()
        if not number:
            return None
        anew = self.anew if number <= self.resumed else ()
        return manifest.read(number, self.document(number), plan, anew)

    @property
    def commits(self) -> Commits:
        """When output is committed."""
        rhythm = self.rhythm
        longest_s = self.restarts.longest_s
        return Commits(rhythm.every_s, rhythm.timeout_s, longest_s)

    def document(self, number: int) -> Manifest:
        """What a checkpoint says, without output that is known to be visible."""
        document = self.store.manifest(number)
        noted = self.noted()
        is_visible = noted is not None and number <= noted
        return manifest.all_visible(document) if is_visible else document

    def told(self, news: News, pauses: Pauses | None = None) -> None:
        """Tell, with what it cost the store."""
        if isinstance(news, CheckpointTaken):
            before, self._bytes = self._bytes, self.store.bytes_written
            news = replace(news, bytes=self._bytes - before)
        if isinstance(news, CheckpointTaken | CheckpointFailed):
            self.history.told(news, self.now_us(), pauses)
        elif isinstance(news, Restarting):
            self.history.restarts += 1
        self.tell(news)
