"""Manifests of a job in a bucket: each is created where there is none, or not at all.

A manifest whose request was not answered may exist, or appear later. It is settled by sending it
again: either that creates it now, or it exists already and is compared byte by byte (no other run
writes the same bytes, because they contain the owner's token). While that fails too, the outcome is
unknown.

A run that takes over blocks the manifest that the previous owner may have sent: it puts a *fence*
under that name, unless the manifest exists by then. So a late request of the previous owner is
refused. A fence is no manifest, and is replaced by one when its number is committed; only by the
run that put it, or saw it at its start, because a newer fence belongs to a run that has taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from headrace.core.api.snapshots import Blob, Manifest, StoreError, UnknownOutcome, find_blobs
from headrace.state.storage import names
from headrace.state.storage.checksummed_json import (
    CorruptData,
    decode_checksummed,
    encode_checksummed,
)
from headrace.state.storage.manifests import check_owner
from headrace.state.storage.remote.object_storage import (
    ListedObject,
    ObjectStorage,
    ObjectVersion,
    PreconditionFailed,
    RequestOutcomeUnknown,
)
from headrace.state.storage.remote.ownership import BucketOwnership

FENCE = b"fence %s\n"
FENCE_BYTES = len(FENCE % (b"0" * 32))
MAX_ATTEMPTS = 5


class RemoteManifests:
    """Folder of manifests; for one thread at a time. Without an owner it is read-only."""

    def __init__(
        self,
        objects: ObjectStorage,
        folder: str,
        job: str,
        owner: BucketOwnership | None,
        now: Callable[[], str],
    ) -> None:
        self._objects = objects
        self._folder = folder
        self._job = job
        self._owner = owner
        self._format_now = now
        self._unsettled: tuple[int, bytes] | None = None
        self._numbers: list[int] | None = None
        self._fences: dict[int, ObjectVersion] = {}
        self._blobs_by_number: dict[int, frozenset[Blob]] = {}

    def prepare(self, listed: Mapping[str, ListedObject]) -> None:
        """Start writing: make sure that no manifest of a former run can appear any more."""
        self._fences = self._record_listed(listed)
        assert self._owner is not None
        about = self._owner.get_pending_number(self._job)
        if about is not None:
            self._fence(about)
            self._fences = self._record_listed(self._objects.list_objects(self._folder))
            self._owner.clear_pending()

    def refresh(self) -> None:
        """List the existing manifests."""
        self._record_listed(self._objects.list_objects(self._folder))

    def list_numbers(self) -> list[int]:
        """Return the numbers of the checkpoints with manifests, ascending."""
        if self._numbers is None:
            self.refresh()
        assert self._numbers is not None
        return list(self._numbers)

    def get_path(self, number: int) -> str:
        return f"{self._objects.address}/{self._get_name(number)}"

    def read(self, number: int) -> dict[str, object]:
        """Return a manifest. Raises CorruptData, or RefusedSnapshot for another job or format."""
        found = self._objects.read(self._get_name(number))
        if found is None:
            raise CorruptData("it is missing")
        path = self.get_path(number)
        return check_owner(path, decode_checksummed(path, found.data), self._job, number)

    def list_blobs(self, number: int) -> frozenset[Blob]:
        """Return the blobs that a manifest names. Raises as `read` does."""
        if number not in self._blobs_by_number:
            self._blobs_by_number[number] = frozenset(find_blobs(self.read(number)))
        return self._blobs_by_number[number]

    def commit(self, number: int, manifest: Manifest, named: frozenset[Blob]) -> None:
        """Create a manifest that names these blobs. Raises OwnershipLost."""
        assert self._owner is not None
        own = {"job": self._job, "number": number, "owner": self._owner.token}
        self._owner.announce_manifest(number, self._job, self._format_now())
        data = encode_checksummed({**own, **manifest, **own})
        self._unsettled = (number, data)
        try:
            is_there = self._send(number, data)
        except RequestOutcomeUnknown:
            self.settle()
        except StoreError:
            self._unsettled = None
            raise
        else:
            self._record_outcome(number, is_there=is_there)
        self._blobs_by_number[number] = named

    def settle(self) -> None:
        """Send a manifest of unknown outcome again; raises if it does not exist then. Raises
        OwnershipLost.
        """
        if self._owner is not None:
            self._owner.check_known_loss()
        if self._unsettled is None:
            return
        number, data = self._unsettled
        try:
            is_there = self._send(number, data)
        except StoreError as error:
            raise UnknownOutcome(
                f"{error.message}; it is unknown whether checkpoint {number} is there", error.hint
            ) from error
        self._record_outcome(number, is_there=is_there)

    @property
    def is_settled(self) -> bool:
        """Whether the outcome of every manifest sent is known."""
        return self._unsettled is None

    def remove(self, numbers: Collection[int]) -> None:
        """Remove these manifests."""
        if numbers:
            self._objects.remove([self._get_name(number) for number in numbers])
        for number in numbers:
            self._blobs_by_number.pop(number, None)
        self._numbers = [number for number in self.list_numbers() if number not in numbers]

    def _send(self, number: int, data: bytes) -> bool:
        """Send a manifest; True if it exists now, False if another object does.

        Raises StoreError if it does not exist and never will; RequestOutcomeUnknown.
        """
        name, fence = self._get_name(number), self._fences.get(number)
        try:
            if fence is None:
                self._objects.create(name, data)
            else:
                self._objects.replace(name, data, fence)
        except PreconditionFailed:
            if not self._is_stored(name, data):
                return False
        self._fences.pop(number, None)
        return True

    def _is_stored(self, name: str, data: bytes) -> bool:
        try:
            found = self._objects.read(name)
        except StoreError as error:
            raise RequestOutcomeUnknown(error.message, error.hint) from error
        return found is not None and found.data == data

    def _record_outcome(self, number: int, *, is_there: bool) -> None:
        self._unsettled = None
        if not is_there:
            assert self._owner is not None
            self._owner.verify()
            raise StoreError(f"checkpoint {number} is there already")
        self._numbers = sorted({*self.list_numbers(), number})

    def _fence(self, number: int) -> None:
        """Ensure that a manifest or a fence of this run has that number."""
        assert self._owner is not None
        name, fence = self._get_name(number), FENCE % self._owner.token.encode()
        for _ in range(MAX_ATTEMPTS):
            found = self._objects.read(name)
            if found is not None and (len(found.data) != FENCE_BYTES or found.data == fence):
                return
            try:
                if found is None:
                    self._objects.create(name, fence)
                else:
                    self._objects.replace(name, fence, found.version)
                return
            except PreconditionFailed:
                continue
        raise StoreError(f"cannot write {self.get_path(number)}: other processes keep writing it")

    def _record_listed(self, listed: Mapping[str, ListedObject]) -> dict[int, ObjectVersion]:
        """Record the manifests among these objects; returns the fences."""
        self._numbers, fences = [], dict[int, ObjectVersion]()
        for name, each in listed.items():
            folder, _, last = name.rpartition("/")
            number = names.parse_number(last) if folder == self._folder else None
            if number is None:
                continue
            if each.bytes == FENCE_BYTES:
                fences[number] = each.version
            else:
                self._numbers.append(number)
        self._numbers.sort()
        return fences

    def _get_name(self, number: int) -> str:
        return f"{self._folder}/{number}.json"
