"""Files of a server in its home, and the records of its jobs; no other module knows the names.

home     / serve.token                  the token of requests over TCP
         / serve.read-only-token        the token of viewers
         / @server / leader             held by the server that leads
                   / control.sock       the owner's socket
                   / jobs / NAME.json   the record of a job
                   / pipelines / NAME.yaml    the version of the pipeline that runs
                               / NAME.before  the version before, while an upgrade is undecided
                   / logs / NAME.log    what a job prints, with rotated files
                   / history / N.json   a run that has ended
                   / access.log         requests over TCP
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import msgspec

from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage.disk import write_atomically
from headrace.state.storage.local_disk import LocalDisk

SERVER = "@server"
"""The folder of the server among the homes of jobs, whose names have no such character."""

BEFORE = ".before"
"""The suffix of the version before an upgrade."""


class PendingUpgrade(msgspec.Struct):
    """An upgrade whose new version has not completed a checkpoint yet."""

    checkpoint: int
    """The last checkpoint of the version before."""
    savepoint: str
    overrides: list[str] = []
    """The values that the version before overrides."""
    is_begun: bool = True
    """Whether the new version starts next, and not the version before."""


class JobRecord(msgspec.Struct):
    """The server's record of a job, from one server to the next."""

    name: str
    file: str
    """The pipeline's file; paths in the pipeline are relative to its folder."""
    generation: int = 0
    """Grows with each request that changes the job."""
    is_wanted: bool = False
    """Whether the job is to run, now and when a server starts."""
    status: str = "stopped"
    """`running`, `waiting` for a restart, or how a run ended: `stopped`, `done`, `failed`."""
    reason: str = ""
    run: str | None = None
    """The id of a run whose end has not been recorded."""
    started_at: str = ""
    options: list[str] = []
    """Options of `run` for the next start only."""
    overrides: list[str] = []
    """The values that the version which runs overrides, as `run --set` takes them."""
    failures: int = 0
    """Runs in a row that have failed early."""
    upgrade: PendingUpgrade | None = None
    upgrade_result: str = ""
    """Why the last upgrade was rolled back; empty if it was not."""


@dataclass(frozen=True, slots=True)
class ServerFolder:
    """The folder of a server in the home of its jobs."""

    home: str
    """The folder of all homes, absolute."""

    @property
    def path(self) -> str:
        """The folder itself."""
        return os.path.join(self.home, SERVER)

    @property
    def lock(self) -> str:
        """The file that the server which leads has locked."""
        return os.path.join(self.path, "leader")

    @property
    def access_log(self) -> str:
        """The log of requests over TCP."""
        return os.path.join(self.path, "access.log")

    def get_token_path(self, *, read_only: bool = False) -> str:
        """Return the file of a token."""
        return os.path.join(self.home, f"serve.{'read-only-' if read_only else ''}token")

    def get_pipeline_path(self, name: str, suffix: str = ".yaml") -> str:
        """Return the file with the text of a job's pipeline."""
        return os.path.join(self.path, "pipelines", f"{name}{suffix}")

    def get_log_path(self, name: str) -> str:
        """Return the log of a job."""
        return os.path.join(self.path, "logs", f"{name}.log")

    def prepare(self) -> bool:
        """Create the folders; return whether no server has been here before."""
        disk = LocalDisk()
        is_first = not os.path.isdir(os.path.join(self.path, "jobs"))
        for name in ("logs", "history", "pipelines", "jobs"):
            disk.make_folder(os.path.join(self.path, name))
        return is_first

    def write_text(self, path: str, text: str) -> None:
        """Write a text durably, atomically."""
        write_atomically(LocalDisk(), path, f"{path}.tmp", text.encode())

    def save_record(self, record: JobRecord) -> None:
        """Write the record of a job durably."""
        path = os.path.join(self.path, "jobs", f"{record.name}.json")
        write_atomically(LocalDisk(), path, f"{path}.tmp", msgspec.json.encode(record))

    def remove_record(self, name: str) -> None:
        """Forget a job."""
        for path in (
            os.path.join(self.path, "jobs", f"{name}.json"),
            self.get_pipeline_path(name),
        ):
            LocalDisk().remove(path)

    def load_records(self) -> list[JobRecord]:
        """Load the records of all jobs; one that cannot be read is left out."""
        found = []
        folder = os.path.join(self.path, "jobs")
        for name in sorted(LocalDisk().list_names(folder)):
            if name.endswith(".json"):
                with suppress(OSError, msgspec.MsgspecError):
                    data = LocalDisk().read(os.path.join(folder, name))
                    found.append(msgspec.json.decode(data, type=JobRecord))
        return found

    def add_history(self, document: dict[str, object], kept: int) -> None:
        """Add a run that has ended, and remove the oldest beyond this number."""
        numbers = self.list_history()
        number = numbers[-1] + 1 if numbers else 1
        path = self._get_history_path(number)
        data = msgspec.json.encode({"number": number, **document})
        write_atomically(LocalDisk(), path, f"{path}.tmp", data)
        for old in numbers[: max(0, len(numbers) + 1 - kept)]:
            LocalDisk().remove(self._get_history_path(old))

    def list_history(self) -> list[int]:
        """List the numbers of the runs that have ended, in their order."""
        names = LocalDisk().list_names(os.path.join(self.path, "history"))
        stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def read_history(self, number: int) -> dict[str, Any] | None:
        """Return a run that has ended; None if there is none of that number."""
        try:
            data = LocalDisk().read(self._get_history_path(number))
        except FileNotFoundError:
            return None
        document: dict[str, Any] = msgspec.json.decode(data)
        return document

    def _get_history_path(self, number: int) -> str:
        return os.path.join(self.path, "history", f"{number}.json")
