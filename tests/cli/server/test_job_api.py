"""The routes of the server are those of its page, and of docs/openapi.json."""

import re
from pathlib import Path

from headrace.cli.server.job_api import JobApi
from headrace.cli.server.pipeline_files import PipelineFiles
from headrace.cli.server.server_folder import ServerFolder
from headrace.cli.server.supervisor import Supervisor
from tests.support.cli.openapi import list_operations
from tests.support.paths import ROOT


def test_the_page_and_openapi_name_every_route(tmp_path: Path) -> None:
    folder = ServerFolder(str(tmp_path))
    supervisor = Supervisor(folder, print, kept_history=1)
    api = JobApi(folder, supervisor, PipelineFiles(str(tmp_path), folder))
    assert {(route.path, route.method) for route in api.build_routes()} == list_operations("server")
    routes = {
        (route.method, re.sub(r"/\{route\}.*", "/...", route.path)) for route in api.build_routes()
    }
    page = (ROOT / "docs" / "serve.md").read_text("utf-8")
    table = "\n".join(line for line in page.splitlines() if line.startswith("| `"))
    names = {"NAME": "{name}", "ID": "{id}", "/N": "/{number}"}
    for shown, written in names.items():
        table = re.sub(rf"{shown}\b", written, table)
    found = set()
    for line in table.splitlines():
        first = line.split("|")[1]
        methods = re.findall(r"GET|POST", first)
        found |= {(m, path) for m in methods for path in re.findall(r"(/[^`\s]*)`", first)}
    assert routes == found
