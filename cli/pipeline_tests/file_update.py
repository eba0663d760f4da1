"""Atomic changes of the files in which tests are written."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress

from headrace.cli.errors import Refusal
from headrace.core.pipeline.pipeline_tests.text_edits import TextEdit, apply_edits
from headrace.core.pipeline.yaml_document.source_file import SourceText, read_source_file

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def write_edits(edits: Iterable[TextEdit]) -> None:
    """Write edits into their files, each of which is replaced as a whole. Raises Refusal."""
    by_file: dict[str, list[TextEdit]] = {}
    for edit in edits:
        by_file.setdefault(edit.file.name, []).append(edit)
    for found in by_file.values():
        file = found[0].file
        replace_text(file, apply_edits(file.text, found))


def replace_text(file: SourceText, text: str) -> None:
    """Replace the text of a file that has not changed since it was read. Raises Refusal."""
    now, _ = read_source_file(file.name)
    if now is None or now.text != file.text:
        raise Refusal(f"{file.name} has changed meanwhile, and is left as it is")
    path = os.path.realpath(file.name)
    with open(path, "rb") as opened:
        mark = BYTE_ORDER_MARK if opened.read(3) == BYTE_ORDER_MARK else b""
    write_file(path, mark + text.encode())


def write_file(path: str, content: bytes) -> None:
    """Write a file, so that it is there as a whole or not at all. Raises Refusal."""
    folder, name = os.path.split(path)
    made = ""
    try:
        descriptor, made = tempfile.mkstemp(prefix=f".{name}.", dir=folder or ".")
        with open(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(descriptor)
        _set_mode(path, made)
        os.replace(made, path)
    except OSError as error:
        if made:
            with suppress(OSError):
                os.unlink(made)
        reason = (error.strerror or str(error)).lower()
        raise Refusal(f"cannot write {path}: {reason}") from None


def _set_mode(path: str, made: str) -> None:
    """Give a file the mode of the one that it replaces, or that of any new file."""
    if os.path.exists(path):
        shutil.copymode(path, made)
    else:
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(made, 0o666 & ~mask)
