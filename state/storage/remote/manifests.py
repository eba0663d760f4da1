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

from headrace.core.snapshots import Blob, Manifest, StoreError, UnknownOutcome, blobs_in
from headrace.state.storage import names
from headrace.state.storage.manifests import owned
from headrace.state.storage.remote.objects import (
    Conflict,
    Listed,
    Objects,
    Unanswered,
    Version,
)
from headrace.state.storage.remote.owning import Owning
from headrace.state.storage.sealing import Broken, seal, unseal

FENCE = b"fence %s\n"
FENCE_BYTES = len(FENCE % (b"0" * 32))
TIMES = 5


class RemoteManifests:
    """Folder of manifests; for one thread at a time. Without an owner it is read-only."""

    def __init__(
        self, objects: Objects, folder: str, job: str, owner: Owning | None, now: Callable[[], str]
    ) -> None:
        self._objects = objects
        self._folder = folder
        self._job = job
        self._owner = owner
        self._now = now
        self._unknown: tuple[int, bytes] | None = None
        self._numbers: list[int] | None = None
        self._fences: dict[int, Version] = {}
        self._named: dict[int, frozenset[Blob]] = {}

    def prepare(self, listed: Mapping[str, Listed]) -> None:
        """Start writing: make sure that no manifest of a former run can appear any more."""
        self._fences = self._see(listed)
        assert self._owner is not None
        about = self._owner.about(self._job)
        if about is not None:
            self._close(about)
            self._fences = self._see(self._objects.listed(self._folder))
            self._owner.closed()

    def look(self) -> None:
        """List the existing manifests."""
        self._see(self._objects.listed(self._folder))

    def numbers(self) -> list[int]:
        """Return the numbers of the checkpoints with manifests, ascending."""
        if self._numbers is None:
            self.look()
        assert self._numbers is not None
        return list(self._numbers)

    def path(self, number: int) -> str:
        return f"{self._objects.address}/{self._name(number)}"

    def read(self, number: int) -> dict[str, object]:
        """Return a manifest. Raises CorruptData, or RefusedSnapshot for another job or format."""
        found = self._objects.read(self._name(number))
        if found is None:
            raise Broken("it is missing")
        path = self.path(number)
        return owned(path, unseal(path, found.data), self._job, number)

    def named(self, number: int) -> frozenset[Blob]:
        """Return the blobs that a manifest names. Raises as `read` does."""
        if number not in self._named:
            self._named[number] = frozenset(blobs_in(self.read(number)))
        return self._named[number]

    def commit(self, number: int, manifest: Manifest, named: frozenset[Blob]) -> None:
        """Create a manifest that names these blobs. Raises OwnershipLost."""
        assert self._owner is not None
        own = {"job": self._job, "number": number, "owner": self._owner.token}
        self._owner.begin(number, self._job, self._now())
        data = seal({**own, **manifest, **own})
        self._unknown = (number, data)
        try:
            is_there = self._sent(number, data)
        except Unanswered:
            self.settle()
        except StoreError:
            self._unknown = None
            raise
        else:
            self._settled(number, is_there=is_there)
        self._named[number] = named

    def settle(self) -> None:
        """Send a manifest of unknown outcome again; raises if it does not exist then. Raises
        OwnershipLost.
        """
        if self._owner is not None:
            self._owner.check()
        if self._unknown is None:
            return
        number, data = self._unknown
        try:
            is_there = self._sent(number, data)
        except StoreError as error:
            raise UnknownOutcome(
                f"{error.message}; it is unknown whether checkpoint {number} is there", error.hint
            ) from error
        self._settled(number, is_there=is_there)

    @property
    def is_settled(self) -> bool:
        """Whether the outcome of every manifest sent is known."""
        return self._unknown is None

    def remove(self, numbers: Collection[int]) -> None:
        """Remove these manifests."""
        if numbers:
            self._objects.remove([self._name(number) for number in numbers])
        for number in numbers:
            self._named.pop(number, None)
        self._numbers = [number for number in self.numbers() if number not in numbers]

    def _sent(self, number: int, data: bytes) -> bool:
        """Send a manifest; True if it exists now, False if another object does.

        Raises StoreError if it does not exist and never will; RequestOutcomeUnknown.
        """
        name, fence = self._name(number), self._fences.get(number)
        try:
            if fence is None:
                self._objects.create(name, data)
            else:
                self._objects.replace(name, data, fence)
        except Conflict:
            if not self._is_there(name, data):
                return False
        self._fences.pop(number, None)
        return True

    def _is_there(self, name: str, data: bytes) -> bool:
        try:
            found = self._objects.read(name)
        except StoreError as error:
            raise Unanswered(error.message, error.hint) from error
        return found is not None and found.data == data

    def _settled(self, number: int, *, is_there: bool) -> None:
        self._unknown = None
        if not is_there:
            assert self._owner is not None
            self._owner.look()
            raise StoreError(f"checkpoint {number} is there already")
        self._numbers = sorted({*self.numbers(), number})

    def _close(self, number: int) -> None:
        """Ensure that a manifest or a fence of this run has that number."""
        assert self._owner is not None
        name, fence = self._name(number), FENCE % self._owner.token.encode()
        for _ in range(TIMES):
            found = self._objects.read(name)
            if found is not None and (len(found.data) != FENCE_BYTES or found.data == fence):
                return
            try:
                if found is None:
                    self._objects.create(name, fence)
                else:
                    self._objects.replace(name, fence, found.version)
                return
            except Conflict:
                continue
        raise StoreError(f"cannot write {self.path(number)}: other processes keep writing it")

    def _see(self, listed: Mapping[str, Listed]) -> dict[int, Version]:
        """Record the manifests among these objects; returns the fences."""
        self._numbers, fences = [], dict[int, Version]()
        for name, each in listed.items():
            folder, _, last = name.rpartition("/")
            number = names.number(last) if folder == self._folder else None
            if number is None:
                continue
            if each.bytes == FENCE_BYTES:
                fences[number] = each.version
            else:
                self._numbers.append(number)
        self._numbers.sort()
        return fences

    def _name(self, number: int) -> str:
        return f"{self._folder}/{number}.json"
