"""The manifests of a job in a bucket: each is created where none is, or not at all.

One whose request was not answered may be there, or come to be there later. It is settled by sending
it again: either that is done now, or it had been, and it is found there byte by byte (no other run
writes the same bytes, for they have the owner's token). While that fails too, nobody can tell.

A run that takes over closes the place of the manifest that the one before may have sent: it puts a
*fence* there, unless the manifest has come meanwhile. So what that run sends too late is refused. A
fence is no manifest, and is replaced by one when the number's turn has come; only by who has put
it, or saw it when it began, for a fence that is new is of who has taken over.
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
    """A folder of manifests; one thread at a time. Without an owner they are only looked at."""

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
        """Begin: what a run before has sent is there now, or never will be."""
        self._fences = self._see(listed)
        assert self._owner is not None
        about = self._owner.about(self._job)
        if about is not None:
            self._close(about)
            self._fences = self._see(self._objects.listed(self._folder))
            self._owner.closed()

    def look(self) -> None:
        """See which are there."""
        self._see(self._objects.listed(self._folder))

    def numbers(self) -> list[int]:
        """Of which checkpoints there are some, rising."""
        if self._numbers is None:
            self.look()
        assert self._numbers is not None
        return list(self._numbers)

    def path(self, number: int) -> str:
        """Where a manifest is."""
        return f"{self._objects.address}/{self._name(number)}"

    def read(self, number: int) -> dict[str, object]:
        """A manifest. Raises Broken, or RefusedSnapshot if it is not one of this job and format."""
        found = self._objects.read(self._name(number))
        if found is None:
            raise Broken("it is gone")
        path = self.path(number)
        return owned(path, unseal(path, found.data), self._job, number)

    def named(self, number: int) -> frozenset[Blob]:
        """The blobs that a manifest names. Raises as `read` does."""
        if number not in self._named:
            self._named[number] = frozenset(blobs_in(self.read(number)))
        return self._named[number]

    def commit(self, number: int, manifest: Manifest, named: frozenset[Blob]) -> None:
        """Create it; it names these blobs. Raises Deposed."""
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
        """Have what was sent there; raises if it is not. Raises Deposed."""
        if self._owner is not None:
            self._owner.check()
        if self._unknown is None:
            return
        number, data = self._unknown
        try:
            is_there = self._sent(number, data)
        except StoreError as error:
            raise UnknownOutcome(
                f"{error.message}; nobody can tell whether checkpoint {number} is there", error.hint
            ) from error
        self._settled(number, is_there=is_there)

    @property
    def is_settled(self) -> bool:
        """Whether it is known of all that was sent whether it is there."""
        return self._unknown is None

    def remove(self, numbers: Collection[int]) -> None:
        """Remove them."""
        if numbers:
            self._objects.remove([self._name(number) for number in numbers])
        for number in numbers:
            self._named.pop(number, None)
        self._numbers = [number for number in self.numbers() if number not in numbers]

    def _sent(self, number: int, data: bytes) -> bool:
        """Whether it is there now; if not, something else is. Raises StoreError: it is not there,
        and never will be; Unanswered.
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
        """Have a manifest or a fence of ours in its place."""
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
        raise StoreError(f"cannot write {self.path(number)}: others write it all the time")

    def _see(self, listed: Mapping[str, Listed]) -> dict[int, Version]:
        """Take note of the manifests among those; gives the fences."""
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
