"""Ownership of a job's checkpoints in a bucket: a record, taken and renewed by conditional writes.

A bucket has no lock that ends with its process. So the record is a claim, and the server decides
which claim is valid: each write of the record names the version that its writer saw last. A run
that has lost the ownership learns that at its next write of the record, which precedes each
manifest, and stops.

    record = the run and its home; its start; the number of the manifest it is about to send; over?

A run of the same home holds the lock of that home, so the previous run is dead, and the new run
takes the record at once. A run of another home is refused, unless the record says that the run is
over, or the user requests a takeover: a clock cannot decide whether a process is dead, a person who
looks can.

The record names a checkpoint before its manifest is sent. So a run that takes over knows which
manifest may still be in flight, and fences it before listing the existing ones.
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
"""Maximum number of attempts when other processes write the record in between."""
STALE = Version('"00000000000000000000000000000000"', "1")
"""Version that no object has."""


@dataclass(frozen=True, slots=True)
class Record:
    """Contents of the ownership record."""

    token: str
    """Unique token of the run."""
    home: str
    pid: int
    host: str
    since: str
    renewed: str
    about: int | None = None
    """Number of the manifest that may be in flight,"""
    job: str | None = None
    """and the job that it belongs to."""
    over: bool = False

    @property
    def holder(self) -> Holder:
        """Process that owns the record."""
        return Holder(self.pid, self.host, self.since)


@dataclass(frozen=True, slots=True)
class Free:
    """The record may be taken; `killed` owned it and has not reported its end."""

    killed: Holder | None = None


Verdict: TypeAlias = "Free | Record"


def decide(found: Record | None, home: str, *, take_over: bool) -> Verdict:
    """Decide whether a run of this home may take the record; if not, return the owner's record.

    >>> theirs = Record("t", "their home", 7, "pegasus", "08:00", "09:00")
    >>> decide(None, "mine", take_over=False) == Free()
    True
    >>> decide(theirs, "mine", take_over=False) is theirs
    True
    >>> decide(theirs, "mine", take_over=True) == decide(theirs, "their home", take_over=False)
    True
    >>> decide(theirs, "mine", take_over=True) == Free(theirs.holder)
    True
    >>> decide(replace(theirs, over=True), "mine", take_over=False) == Free()
    True
    """
    if found is None or found.over:
        return Free()
    if found.home == home or take_over:
        return Free(found.holder)
    return found


class HeldElsewhere(RefusedSnapshot):
    """A run of another home owns the bucket's checkpoints."""


class Deposed(RefusedSnapshot):
    """Another run has taken over: this one must not commit anything any more."""


class Owning:
    """Ownership record as one run holds it; for one thread at a time."""

    def __init__(self, objects: Objects, me: Record) -> None:
        self._objects = objects
        self._me = me
        self._version: Version | None = None
        self._deposed: Deposed | None = None
        self.killed: Holder | None = None
        """Previous owner, if it was killed or lost the ownership to this run."""

    @property
    def token(self) -> str:
        """Token that only this run writes."""
        return self._me.token

    def about(self, job: str) -> int | None:
        """Return the number of that job's manifest that a former run may have sent."""
        return self._me.about if self._me.job == job else None

    def take(self, *, take_over: bool) -> None:
        """Take the ownership. Raises BucketHeld."""
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
        """Announce a manifest. Raises OwnershipLost; after a StoreError the manifest must not be
        sent.
        """
        self._renew(replace(self._me, about=number, job=job, renewed=now))

    def closed(self) -> None:
        """Record that no manifest can be in flight any more."""
        self._me = replace(self._me, about=None, job=None)

    def check(self) -> None:
        """Raise OwnershipLost if the loss is known; sends no request."""
        if self._deposed is not None:
            raise self._deposed

    def look(self) -> None:
        """Read the record to check the ownership. Raises OwnershipLost."""
        self.check()
        found = self._objects.read(OWNER)
        record = self._read(found)
        if found is None or record is None or record.token != self.token:
            self._deposed = self._lost(record)
            raise self._deposed
        self._version = found.version

    def release(self, now: str) -> None:
        """Record that the run is over: a run of any home may follow."""
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
        """Refuse a server that ignores conditions: such servers exist."""
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
    """Build the record of this run."""
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
