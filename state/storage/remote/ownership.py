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
from dataclasses import replace
from typing import Any, TypeAlias

from headrace.core.api.snapshots import RefusedSnapshot, StoreError
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage.checksummed_json import (
    CorruptData,
    decode_document,
    encode_checksummed,
)
from headrace.state.storage.documents import OwnerDocument
from headrace.state.storage.home_lock import LockHolder
from headrace.state.storage.remote.object_storage import (
    ObjectStorage,
    ObjectVersion,
    PreconditionFailed,
    StoredObject,
)

OWNER_FILE = "owner.json"
_MISSING_RECORD = "not held: its ownership record is missing"
MAX_ATTEMPTS = 5
"""Maximum number of attempts when other processes write the record in between."""
STALE_VERSION = ObjectVersion('"00000000000000000000000000000000"', "1")
"""Version that no object has."""


@dataclass(frozen=True, slots=True)
class OwnershipRecord:
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
    def holder(self) -> LockHolder:
        """Process that owns the record."""
        return LockHolder(self.pid, self.host, self.since)


@dataclass(frozen=True, slots=True)
class ClaimGranted:
    """The record may be taken; `killed` owned it and has not reported its end."""

    killed: LockHolder | None = None


ClaimVerdict: TypeAlias = "ClaimGranted | OwnershipRecord"


def decide_claim(record: OwnershipRecord | None, home: str, *, take_over: bool) -> ClaimVerdict:
    """Decide whether a run of this home may take the record; if not, return the owner's record.

    >>> theirs = OwnershipRecord("t", "their home", 7, "pegasus", "08:00", "09:00")
    >>> decide_claim(None, "mine", take_over=False) == ClaimGranted()
    True
    >>> decide_claim(theirs, "mine", take_over=False) is theirs
    True
    >>> taken = decide_claim(theirs, "mine", take_over=True)
    >>> taken == decide_claim(theirs, "their home", take_over=False)
    True
    >>> decide_claim(theirs, "mine", take_over=True) == ClaimGranted(theirs.holder)
    True
    >>> decide_claim(replace(theirs, over=True), "mine", take_over=False) == ClaimGranted()
    True
    """
    if record is None or record.over:
        return ClaimGranted()
    if record.home == home or take_over:
        return ClaimGranted(record.holder)
    return record


class BucketHeld(RefusedSnapshot):
    """A run of another home owns the bucket's checkpoints."""


class OwnershipLost(RefusedSnapshot):
    """Another run has taken over: this one must not commit anything any more."""


class BucketOwnership:
    """Ownership record as one run holds it; for one thread at a time."""

    def __init__(self, objects: ObjectStorage, record: OwnershipRecord) -> None:
        self._objects = objects
        self._record = record
        self._version: ObjectVersion | None = None
        self._loss: OwnershipLost | None = None
        self.previous_owner: LockHolder | None = None
        """Previous owner, if it was killed or lost the ownership to this run."""

    @property
    def token(self) -> str:
        """Token that only this run writes."""
        return self._record.token

    def get_pending_number(self, job: str) -> int | None:
        """Return the number of that job's manifest that a former run may have sent."""
        return self._record.about if self._record.job == job else None

    def acquire(self, *, take_over: bool) -> None:
        """Take the ownership. Raises BucketHeld."""
        for _ in range(MAX_ATTEMPTS):
            owner_object = self._objects.read(OWNER_FILE)
            record = self._parse_record(owner_object)
            if owner_object is not None and record is not None and record.token == self.token:
                self._version = owner_object.version  # the answer got lost
                return
            match decide_claim(record, self._record.home, take_over=take_over):
                case ClaimGranted(killed):
                    self.previous_owner = killed
                    if record is not None:
                        self._record = replace(self._record, about=record.about, job=record.job)
                case OwnershipRecord() as other:
                    raise self._build_held_error(other)
            try:
                self._version = self._write_claim(owner_object)
            except PreconditionFailed:
                continue
            self._check_conditions()
            return
        raise StoreError(f"cannot have {self._record_address}: others write it all the time")

    def announce_manifest(self, number: int, job: str, now: str) -> None:
        """Announce a manifest. Raises OwnershipLost; after a StoreError the manifest must not be
        sent.
        """
        self._renew(replace(self._record, about=number, job=job, renewed=now))

    def clear_pending(self) -> None:
        """Record that no manifest can be in flight any more."""
        self._record = replace(self._record, about=None, job=None)

    def check_known_loss(self) -> None:
        """Raise OwnershipLost if the loss is known; sends no request."""
        if self._loss is not None:
            raise self._loss

    def verify(self) -> None:
        """Read the record to check the ownership. Raises OwnershipLost."""
        self.check_known_loss()
        found = self._objects.read(OWNER_FILE)
        record = self._parse_record(found)
        if found is None or record is None or record.token != self.token:
            self._loss = self._build_loss_error(record)
            raise self._loss
        self._version = found.version

    def release(self, now: str) -> None:
        """Record that the run is over: a run of any home may follow."""
        if self._version is not None and self._loss is None:
            self._renew(replace(self._record, over=True, renewed=now))

    def _renew(self, record: OwnershipRecord) -> None:
        self.check_known_loss()
        assert self._version is not None
        for _ in range(MAX_ATTEMPTS):
            try:
                self._version = self._objects.replace(
                    OWNER_FILE, _encode_record(record), self._version
                )
            except PreconditionFailed:
                self.verify()  # or an answer got lost
                continue
            self._record = record
            return
        raise StoreError(f"cannot write {self._record_address}: others write it all the time")

    def _write_claim(self, found: StoredObject | None) -> ObjectVersion:
        data = _encode_record(self._record)
        if found is None:
            return self._objects.create(OWNER_FILE, data)
        return self._objects.replace(OWNER_FILE, data, found.version)

    def _check_conditions(self) -> None:
        """Refuse a server that ignores conditions: such servers exist."""
        data = _encode_record(self._record)
        for found in (None, StoredObject(data, STALE_VERSION)):
            with suppress(PreconditionFailed):
                self._write_claim(found)
                raise RefusedSnapshot(
                    f"{self._objects.address}: its server writes also where a condition does not "
                    "hold",
                    "docs/remote.md says what a server must do; a newer version of it may",
                )

    def _parse_record(self, found: StoredObject | None) -> OwnershipRecord | None:
        if found is None:
            return None
        try:
            return _record(decode_document(self._record_address, found.data, OwnerDocument))
        except CorruptData as error:
            hint = "remove it when no run has this address"
            message = f"{self._record_address} is damaged: {error}"
            raise RefusedSnapshot(message, hint) from None

    @property
    def _record_address(self) -> str:
        return f"{self._objects.address}/{OWNER_FILE}"

    def _build_held_error(self, other: OwnershipRecord) -> BucketHeld:
        return BucketHeld(
            f"{self._objects.address} is held by {other.holder}, last renewed at {other.renewed}",
            "wait for it, or stop it; if it is certainly dead, "
            "--take-over resumes from its newest checkpoint",
        )

    def _build_loss_error(self, record: OwnershipRecord | None) -> OwnershipLost:
        holder = f"held by {record.holder}" if record else _MISSING_RECORD
        return OwnershipLost(
            f"{self._objects.address} is {holder}",
            "that run resumes from the newest checkpoint; this one has written nothing since",
        )


def build_own_record(home: str, holder: LockHolder) -> OwnershipRecord:
    """Build the record of this run."""
    return OwnershipRecord(
        uuid.uuid4().hex, home, holder.pid, holder.host, holder.since, renewed=holder.since
    )


def _encode_record(record: OwnershipRecord) -> bytes:
    return encode_checksummed(
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


def _record(stored: Mapping[str, Any]) -> OwnershipRecord:
    return OwnershipRecord(
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
