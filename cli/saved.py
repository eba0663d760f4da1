"""Restoring a job from a savepoint, which becomes a checkpoint of the job's home.

In the home of the job that it was taken of, it is one more checkpoint of that job; in any other
home it is the first one of a new job. Running the same command again goes back to the savepoint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from headrace.core.snapshots import RefusedSnapshot

if TYPE_CHECKING:
    from headrace.cli.resuming import Start
    from headrace.core.connector import Connectors
    from headrace.core.plan import Plan
    from headrace.core.snapshots import SnapshotStore
    from headrace.state.savepoints.savepoint import Savepoint
    from headrace.state.storage.cabinet import Cabinet


@dataclass(frozen=True, slots=True)
class Saved:
    """A savepoint, and the checkpoint made of it."""

    savepoint: Savepoint
    number: int = 0
    """The number of the checkpoint in the home."""
    is_same: bool = False
    """Whether the savepoint belongs to the job of this home."""
    forgotten: int = 0
    """The number of another job's checkpoints that were removed."""

    def newer(self, store: SnapshotStore) -> tuple[int, ...]:
        """Return the job's checkpoints that are newer than the savepoint."""
        if not self.is_same:
            return ()
        return tuple(n for n in store.manifests() if self.savepoint.number < n < self.number)


def fitting(path: str, plan: Plan, start: Start) -> Saved:
    """Open a savepoint, and check that the pipeline is compatible with it. Raises SnapshotError."""
    from headrace.core.fitting import FRESH, Wishes, check_fits
    from headrace.state.savepoints.savepoint import open_savepoint

    savepoint = open_savepoint(path)
    number = savepoint.number
    try:
        check_fits(number, savepoint.document, plan, Wishes(start.anew, start.lose, start.drained))
    except RefusedSnapshot as error:
        said = error.message.replace(f"checkpoint {number}", savepoint.title, 1)
        # --fresh is no way to resume from a savepoint: the two options exclude each other.
        hint = error.hint.removesuffix(FRESH).removesuffix("; ")
        raise RefusedSnapshot(said, hint) from error
    return Saved(savepoint)


async def check_sinks(plan: Plan, connectors: Connectors, folder: Path) -> None:
    """Check that sinks accept output that continues another job's. Raises ConnectorError."""
    from headrace.core.bench import Bench
    from headrace.core.contracts import Surroundings
    from headrace.core.ends import open_ends

    surroundings = Surroundings(folder, uuid4().hex, Bench(), continues=True)
    ends = open_ends(plan, connectors, surroundings)
    try:
        await ends.check_sinks()
    finally:
        await ends.close()


def adopted(saved: Saved, home: Cabinet, look: Callable[[], None]) -> Saved:
    """Make the savepoint a checkpoint of the home; if this raises, nothing has changed.

    `look` raises the errors for which a new job is rejected.
    """
    from headrace.cli.resuming import now
    from headrace.state.savepoints.adopting import adopt

    kept = home.looked_at()
    if kept is not None and kept.job == saved.savepoint.job:
        store = home.store(kept.job)
        # Greater than all numbers ever used: notes on another checkpoint must not apply here.
        number = max((*store.manifests(), saved.savepoint.number, home.noted() or 0)) + 1
        adopt(saved.savepoint, store, number)
        return replace(saved, number=number, is_same=True)
    look()
    forgotten = 0 if kept is None else len(kept.manifests())
    with home.renewed(now()) as renewed:
        adopt(saved.savepoint, renewed, 1)
    return replace(saved, number=1, forgotten=forgotten)
