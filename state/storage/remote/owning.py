"""Who writes the checkpoints of a job in a bucket: a record, taken and renewed under a condition.

No lock ends with its process there. So the record is a claim, and it is the server that decides
whose is good: each write of it names the version that its writer saw last. Who has lost it learns
that when it writes next, which it does before each manifest, and stops.

    record = who it is and from which home; since when; the checkpoint it is about to write; over?

A run of the same home has the lock of that home, so the one before is dead, and it goes on at once.
Any other is refused, unless the record says that the run is over, or somebody asked to take over: a
clock cannot tell whether a process is dead, somebody who looks there can.

The record names a checkpoint before its manifest is sent. So whoever takes over knows which one may
still be under way, and closes its place before looking what there is.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from headrace.core.snapshots import RefusedSnapshot, StoreError
from headrace.state.storage.lock import Holder
from headrace.state.storage.remote.objects import Conflict, Found, Objects, Version
from headrace.state.storage.sealing import Broken, seal, unseal

OWNER = "owner.json"
TIMES = 5
"""So often somebody else may come between."""
STALE = Version('"00000000000000000000000000000000"', "1")
"""A version that no object has."""


@dataclass(frozen=True, slots=True)
class Record:
    """What stands in the record."""

    token: str
    """Of the run, and of no other."""
    home: str
    pid: int
    host: str
    since: str
    renewed: str
    about: int | None = None
    """The checkpoint whose manifest may be under way,"""
    job: str | None = None
    """and of which job."""
    over: bool = False

    @property
    def holder(self) -> Holder:
        """Who it is."""
        return Holder(self.pid, self.host, self.since)


@dataclass(frozen=True, slots=True)
class Free:
    """It may be taken; `killed` had it and has not said that it is over."""

    killed: Holder | None = None


Verdict: TypeAlias = "Free | Record"


def decide(found: Record | None, home: str, *, take_over: bool) -> Verdict:
    """Whether a run of this home may take the record; if not, the record of who has it.

    >>> theirs = Record("t", "their home", 7, "pegasus", "08:00", "09:00")
    >>> decide(None, "mine", take_over=False), decide(theirs, "mine", take_over=False) is theirs
    (Free(killed=None), True)
    >>> decide(theirs, "mine", take_over=True) == decide(theirs, "their home", take_over=False)
    True
    >>> decide(theirs, "mine", take_over=True)
    Free(killed=Holder(pid=7, host='pegasus', since='08:00'))
    >>> decide(replace(theirs, over=True), "mine", take_over=False)
    Free(killed=None)
    """
    if found is None or found.over:
        return Free()
    if found.home == home or take_over:
        return Free(found.holder)
    return found


class HeldElsewhere(RefusedSnapshot):
    """A run of another home writes there."""


class Deposed(RefusedSnapshot):
    """Another run has taken over: nothing may be committed any more."""


class Owning:
    """The record, as one run has it. One thread at a time."""

    def __init__(self, objects: Objects, me: Record) -> None:
        self._objects = objects
        self._me = me
        self._version: Version | None = None
        self._deposed: Deposed | None = None
        self.killed: Holder | None = None
        """Who had it, and was killed or deposed."""

    @property
    def token(self) -> str:
        """What only this run writes."""
        return self._me.token

    def about(self, job: str) -> int | None:
        """The checkpoint of that job whose manifest a run before may have sent."""
        return self._me.about if self._me.job == job else None

    def take(self, *, take_over: bool) -> None:
        """Have it. Raises HeldElsewhere."""
        for _ in range(TIMES):
            found = self._objects.read(OWNER)
            record = self._read(found)
            if found is not None and record is not None and record.token == self.token:
                self._version = found.version  # the answer got lost
                return
            match decide(record, self._me.home, take_over=take_over):
                case Free(killed):
                    self.killed = killed
                    if record is not None:
                        self._me = replace(self._me, about=record.about, job=record.job)
                case Record() as other:
                    raise self._held(other)
            try:
                self._version = self._put(found)
            except Conflict:
                continue
            self._test()
            return
        raise StoreError(f"cannot have {self._place}: others write it all the time")

    def begin(self, number: int, job: str, now: str) -> None:
        """Say that a manifest will be sent. Raises Deposed; StoreError: it must not be."""
        self._renew(replace(self._me, about=number, job=job, renewed=now))

    def closed(self) -> None:
        """No manifest can be under way any more."""
        self._me = replace(self._me, about=None, job=None)

    def check(self) -> None:
        """Raises Deposed if that is known; asks nobody."""
        if self._deposed is not None:
            raise self._deposed

    def look(self) -> None:
        """Ask whether it still has the record. Raises Deposed."""
        self.check()
        found = self._objects.read(OWNER)
        record = self._read(found)
        if found is None or record is None or record.token != self.token:
            self._deposed = self._lost(record)
            raise self._deposed
        self._version = found.version

    def release(self, now: str) -> None:
        """Say that the run is over: a run of any home may follow."""
        if self._version is not None and self._deposed is None:
            self._renew(replace(self._me, over=True, renewed=now))

    def _renew(self, record: Record) -> None:
        self.check()
        assert self._version is not None
        for _ in range(TIMES):
            try:
                self._version = self._objects.replace(OWNER, _sealed(record), self._version)
            except Conflict:
                self.look()  # or an answer got lost
                continue
            self._me = record
            return
        raise StoreError(f"cannot write {self._place}: others write it all the time")

    def _put(self, found: Found | None) -> Version:
        data = _sealed(self._me)
        if found is None:
            return self._objects.create(OWNER, data)
        return self._objects.replace(OWNER, data, found.version)

    def _test(self) -> None:
        """Refuse a server that takes no notice of conditions: there are some."""
        data = _sealed(self._me)
        for found in (None, Found(data, STALE)):
            with suppress(Conflict):
                self._put(found)
                raise RefusedSnapshot(
                    f"{self._objects.address}: its server writes also where a condition does not "
                    "hold",
                    "docs/remote.md says what a server must do; a newer version of it may",
                )

    def _read(self, found: Found | None) -> Record | None:
        if found is None:
            return None
        try:
            return _record(unseal(self._place, found.data))
        except (Broken, KeyError):
            hint = "remove it when no run has this address"
            raise RefusedSnapshot(f"{self._place} is damaged", hint) from None

    @property
    def _place(self) -> str:
        return f"{self._objects.address}/{OWNER}"

    def _held(self, other: Record) -> HeldElsewhere:
        return HeldElsewhere(
            f"{self._objects.address} is held by {other.holder}, heard of last at {other.renewed}",
            "wait for it, or stop it; if it is gone for certain, --take-over goes on where it was",
        )

    def _lost(self, record: Record | None) -> Deposed:
        who = f"by {record.holder}" if record else "by nobody: its record is gone"
        return Deposed(
            f"{self._objects.address} is held {who}",
            "that run goes on from the newest checkpoint; this one has written nothing since",
        )


def me(home: str, holder: Holder) -> Record:
    """The record of this run."""
    return Record(
        uuid.uuid4().hex, home, holder.pid, holder.host, holder.since, renewed=holder.since
    )


def _sealed(record: Record) -> bytes:
    return seal(
        {
            "token": record.token,
            "home": record.home,
            "pid": record.pid,
            "host": record.host,
            "since": record.since,
            "renewed": record.renewed,
            "about": record.about,
            "job": record.job,
            "over": record.over,
        }
    )


def _record(stored: Mapping[str, Any]) -> Record:
    return Record(
        token=stored["token"],
        home=stored["home"],
        pid=stored["pid"],
        host=stored["host"],
        since=stored["since"],
        renewed=stored["renewed"],
        about=stored.get("about"),
        job=stored.get("job"),
        over=stored.get("over", False),
    )
