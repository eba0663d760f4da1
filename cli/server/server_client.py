"""Client of the server of a home, for commands: over the owner's socket."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from headrace.cli.control import job_socket
from headrace.cli.control.client import Document, JobClient, NoAnswer, NotListening, build_refusal
from headrace.cli.control.job_list import RESUMABLE_STATUSES, JobEntry
from headrace.cli.control.job_lookup import describe_job_list, format_command, resolve_job_name
from headrace.cli.errors import Refusal
from headrace.cli.pipeline_file import DEFAULT_HOME
from headrace.cli.server.server_folder import SERVER
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk

CHECK_TIMEOUT_S = 120.0
"""The time that a request with a check of a pipeline may take."""

POLL_WAIT_S = 0.5
ANSWER_MARGIN_S = 20.0


@dataclass(frozen=True, slots=True)
class ServerClient:
    """Client of the server that leads a home."""

    root: str
    """The folder of all homes."""

    def send_request(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        generation: int | None = None,
        timeout_s: float = ANSWER_MARGIN_S,
    ) -> Document:
        """Send a request, and return the document of its answer. Raises Refusal."""
        client = JobClient(Home(LocalDisk(), self.root, SERVER))
        headers = {} if generation is None else {"If-Match": f'"{generation}"'}
        try:
            status, document = client.send_request(method, path, body, timeout_s, headers)
        except NotListening:
            folder, name = os.path.split(os.path.abspath(self.root))
            own = f"start one: headrace serve {os.path.relpath(folder)}"
            hint = own if name == DEFAULT_HOME else f"the home of a server is DIR/{DEFAULT_HOME}"
            raise Refusal(f"no server leads {self.root}", hint, 3) from None
        except NoAnswer as error:
            hint = f"it may still do it: {describe_job_list(client.home)}"
            raise Refusal(f"the server has not answered: {error}", hint, 1) from None
        if status >= 300:
            raise build_refusal(status, document)
        return document

    def fetch_job(self, name: str) -> Document:
        """Return a job as the server describes it. Raises Refusal."""
        return self.send_request("GET", f"/v1/jobs/{quote(name, safe='')}")

    def carry_out(
        self, job: str, kind: str, body: Mapping[str, object], show: Callable[[str], None]
    ) -> dict[str, Any]:
        """Have the server change a job as it is now; return the result, showing the progress.

        Raises Refusal.
        """
        path = f"/v1/jobs/{quote(job, safe='')}"
        generation = self.fetch_job(job)["generation"]
        operation = self.send_request(
            "POST", f"{path}/{kind}", body, generation, timeout_s=CHECK_TIMEOUT_S
        )
        shown = ""
        try:
            while operation["state"] == "running":
                words = operation["progress"]["words"]
                if words not in ("", shown):
                    show(words)
                    shown = words
                target = f"/v1/operations/{operation['id']}?wait_s={POLL_WAIT_S}"
                operation = self.send_request("GET", target)
        except KeyboardInterrupt:
            hint = f"headrace jobs --home {self.root} shows the job"
            raise Refusal(f"the {kind} of {job} continues", hint, 130) from None
        if operation["state"] == "done":
            result: dict[str, Any] = operation["result"]
            return result
        error = operation["error"]
        status = 3 if error["code"] == "refused" else 2 if error["code"] == "invalid" else 1
        raise Refusal(error["message"], error["hint"], status)


def describe_start(home: Home) -> str:
    """Return a hint for a job that does not run: its status on its server, and what starts it."""
    try:
        job = ServerClient(home.root).fetch_job(home.name)
    except Refusal:
        job = {"served": False}
    if not job["served"]:
        return "headrace run starts it"
    command = format_command("restart", home, *["--fresh"] * (job["status"] == "done"))
    status = ": ".join(filter(None, (job["status"], job["why"])))
    return f"its status is {status}\n      {command} starts it again"


def add_served_jobs(entries: Sequence[JobEntry], root: str) -> list[JobEntry]:
    """Add to a list what the server of a home knows of jobs that do not run, if there is one."""
    try:
        answer = ServerClient(root).send_request("GET", "/v1/jobs")
    except Refusal:
        return list(entries)
    by_name = {entry.name: entry for entry in entries}
    for found in answer["files"]:
        status = "new" if found["is_valid"] else "invalid"
        name = found["name"]
        by_name.setdefault(name, JobEntry(name, status, os.path.basename(found["file"])))
    for job in answer["jobs"]:
        name, entry = job["name"], by_name.get(job["name"])
        if job["served"] and (entry is None or entry.status in RESUMABLE_STATUSES):
            entry = entry or JobEntry(name, job["status"])
            by_name[name] = replace(entry, status=job["status"], reason=job["why"])
        elif job.get("changed") and entry is not None and not entry.reason:
            by_name[name] = replace(entry, reason="its file has changed: headrace upgrade")
    return [by_name[name] for name in sorted(by_name)]


def cancel_restart(job: str, root: str) -> bool:
    """Keep a job from its restart by the server; False if none is due. Raises Refusal."""
    if not os.path.exists(job_socket.socket_path(os.path.join(root, SERVER))):
        return False
    client, name = ServerClient(root), resolve_job_name(job)
    try:
        found = client.fetch_job(name)
    except Refusal:
        return False
    if found["status"] != "waiting":
        return False
    path = f"/v1/jobs/{quote(name, safe='')}/stop"
    client.send_request("POST", path, {}, found["generation"])
    return True
