"""A job that is to go on from a savepoint: it becomes a checkpoint of the job's home.

In the home of the job that it was taken of it is one more checkpoint of that job; in any other it
is the first one of a new job. The same command again would go back to it again.
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
    """A savepoint, and what it has become."""

    savepoint: Savepoint
    number: int = 0
    """The checkpoint that it is in the home."""
    is_same: bool = False
    """Whether it is of the job whose home it is."""
    forgotten: int = 0
    """How many checkpoints of another job were there."""

    def newer(self, store: SnapshotStore) -> tuple[int, ...]:
        """The job's checkpoints that came after the savepoint."""
        if not self.is_same:
            return ()
        return tuple(n for n in store.manifests() if self.savepoint.number < n < self.number)


def fitting(path: str, plan: Plan, start: Start) -> Saved:
    """The savepoint there, if the pipeline can go on from it. Raises SnapshotError."""
    from headrace.core.fitting import FRESH, Wishes, check_fits
    from headrace.state.savepoints.savepoint import open_savepoint

    savepoint = open_savepoint(path)
    number = savepoint.number
    try:
        check_fits(number, savepoint.document, plan, Wishes(start.anew, start.lose, start.drained))
    except RefusedSnapshot as error:
        said = error.message.replace(f"checkpoint {number}", savepoint.title, 1)
        # Beginning anew is no way to go on from a savepoint: the two cannot be asked for at once.
        hint = error.hint.removesuffix(FRESH).removesuffix("; ")
        raise RefusedSnapshot(said, hint) from error
    return Saved(savepoint)


async def check_sinks(plan: Plan, connectors: Connectors, folder: Path) -> None:
    """Whether output can go there that is the rest of another job's. Raises ConnectorError."""
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
    """Have it where the job's checkpoints are: nothing has changed if this raises.

    `look` raises what a new job would be refused for.
    """
    from headrace.cli.resuming import now
    from headrace.state.savepoints.adopting import adopt

    kept = home.looked_at()
    if kept is not None and kept.job == saved.savepoint.job:
        store = home.store(kept.job)
        # Above all that there ever were: what is noted of a number must not be taken for this one.
        number = max((*store.manifests(), saved.savepoint.number, home.noted() or 0)) + 1
        adopt(saved.savepoint, store, number)
        return replace(saved, number=number, is_same=True)
    look()
    forgotten = 0 if kept is None else len(kept.manifests())
    with home.renewed(now()) as renewed:
        adopt(saved.savepoint, renewed, 1)
    return replace(saved, number=1, forgotten=forgotten)
