"""The pipelines of a folder: what is new, and what differs from the version that runs."""

import asyncio
import shutil
from pathlib import Path

from headrace.cli.server.pipeline_files import PipelineFiles
from headrace.cli.server.server_folder import JobRecord, ServerFolder
from tests.support.cli.servers import endless


def test_only_files_that_have_changed_are_checked(tmp_path: Path) -> None:
    folder = ServerFolder(str(tmp_path / ".headrace"))
    folder.prepare()
    files = PipelineFiles(str(tmp_path), folder)
    a, wrong = tmp_path / "a.yaml", tmp_path / "wrong.yml"
    a.write_text(endless("a"), newline="\r\n")
    wrong.write_text("name: wrong\n")
    for name in ("a.test.yaml", ".b.yaml", "c.txt"):
        (tmp_path / name).write_text(endless("b"))
    assert asyncio.run(files.update()) == [str(a), str(wrong)]
    found = {each["name"]: each["is_valid"] for each in files.list_new(())}
    assert found == {"a": True, "wrong": False}
    assert asyncio.run(files.update()) == []
    assert [each["name"] for each in files.list_new([str(a)])] == ["wrong"]
    record = JobRecord("a", str(a))
    folder.write_text(folder.get_pipeline_path("a"), a.read_bytes().decode())
    assert not files.is_changed(record)
    a.write_text(endless("other"))
    assert files.is_changed(record)
    assert asyncio.run(files.update()) == [str(a)]
    assert [each["name"] for each in files.list_new(())] == ["other", "wrong"]
    shutil.rmtree(tmp_path)
    assert asyncio.run(files.update()) == []
    assert files.list_new(()) == []
