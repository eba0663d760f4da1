"""Replacement of `${env:NAME}`, `${file:path}` and `${secret:NAME}` in scalars, after YAML is read.

A value from outside can therefore never change the document's structure. Inserted text is not
searched for further replacements. `$${` writes a literal `${`. A text that contains a secret stays
marked as secret. A value that is nothing but a file of SQL has its positions in that file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path

from headrace.core.errors.problems import (
    Problem,
    find_nearest_file,
    find_nearest_name,
    suggest_name,
)
from headrace.core.pipeline.text import Replacement, Text
from headrace.core.pipeline.yaml_document.nodes import YamlScalar
from headrace.core.pipeline.yaml_document.source_file import SourceText, format_path
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

MAX_FILE = 2**20
MAX_PROBLEMS = 20
MAX_TOTAL = 4 * 2**20
SECRET_PREFIX = "HEADRACE_SECRET_"
SECRETS_FOLDER_VARIABLE = "HEADRACE_SECRETS"

OPENING_PATTERN = compile_pattern(r"\$\$\{|\$\{")
QUERY_FILE_PATTERN = compile_pattern(r"\$\{file:([^${}]+\.sql)\}")
VARIABLE_PATTERN = compile_pattern(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
SECRET_NAME_PATTERN = compile_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
REPLACEMENT_FORMS = "${env:NAME}, ${env:NAME:-default}, ${file:path} or ${secret:NAME}"


class MissingReplacement(Exception):
    """An error: there is no value to insert, for this reason and with this hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(slots=True)
class InterpolatedScalar:
    """A scalar's value while it is built."""

    parts: list[str] = field(default_factory=list)
    replacements: list[Replacement] = field(default_factory=list)
    is_secret: bool = False

    def put(self, start: int, end: int, text: str) -> None:
        """Insert a text in place of the characters `[start, end)` of the scalar."""
        self.replacements.append(Replacement(start, end, len(text)))
        self.parts.append(text)


class Interpolator:
    """The replacements of one document. Each file is read once; their total size has a limit."""

    def __init__(
        self, folder: Path, env: Mapping[str, str], files: Mapping[Path, str] | None = None
    ) -> None:
        """`files` are texts that have been read already."""
        self.folder = folder
        self.env = env
        self.files: dict[Path, str] = dict(files or {})
        self._left = MAX_TOTAL
        self._sources: dict[str, Callable[[str], str]] = {
            "env": self._read_variable,
            "file": self._read_file,
            "secret": self._read_secret,
        }

    def interpolate(
        self, scalar: YamlScalar, subject: str = ""
    ) -> tuple[Text | None, list[Problem]]:
        """Return the value after all replacements; or None and the problems."""
        if "${" not in scalar.value:
            return Text(scalar.value, scalar), []
        raw = Text(scalar.value, scalar)
        if whole := QUERY_FILE_PATTERN.fullmatch(scalar.value.strip()):
            try:
                return self._read_query(whole[1]), []
            except MissingReplacement as missing:
                return None, [Problem(missing.message, raw.locate(), missing.hint, subject)]
        done, problems, at = InterpolatedScalar(), [], 0
        while found := OPENING_PATTERN.search(scalar.value, at):
            done.parts.append(scalar.value[at : found.start()])
            at = self._find_end(scalar.value, found)
            try:
                self._replace(scalar.value, found, at, done)
            except MissingReplacement as missing:
                place = raw.locate(found.start(), at)
                problems.append(Problem(missing.message, place, missing.hint, subject))
                if len(problems) >= MAX_PROBLEMS:
                    break
        done.parts.append(scalar.value[at:])
        if problems:
            return None, problems
        return Text("".join(done.parts), scalar, tuple(done.replacements), done.is_secret), []

    def _find_end(self, value: str, found: re.Match[str]) -> int:
        if found[0] == "$${":
            return found.end()
        end = value.find("}", found.end())
        return end + 1 if end >= 0 else len(value)

    def _replace(
        self, value: str, match: re.Match[str], end: int, done: InterpolatedScalar
    ) -> None:
        if match[0] == "$${":
            return done.put(match.start(), end, "${")
        body = value[match.end() : end - 1]
        if value[end - 1] != "}" or end == match.end():
            raise MissingReplacement(
                'this "${" is not closed', 'add a "}"; "$${" writes a literal "${"'
            )
        if "${" in body:
            raise MissingReplacement('a "${" cannot be inside another', "a default has no ${ in it")
        kind, _, rest = body.partition(":")
        if kind not in self._sources:
            raise self._make_unknown_error(body, kind)
        text = self._sources[kind](rest)
        self._count(text)
        done.put(match.start(), end, text)
        done.is_secret = done.is_secret or kind == "secret"

    def _make_unknown_error(self, body: str, kind: str) -> MissingReplacement:
        name = body.partition(":-")[0]
        near = find_nearest_name(kind, self._sources) if ":" in body else ""
        hint = f"did you mean ${{{near}:{body.partition(':')[2]}}}?" if near else ""
        if not near and VARIABLE_PATTERN.fullmatch(name):
            hint = f'did you mean ${{env:{body}}}? "$${{" writes a literal "${{"'
        return MissingReplacement(f'wanted {REPLACEMENT_FORMS}, got "${{{body}}}"', hint)

    def _read_variable(self, rest: str) -> str:
        name, dash, default = rest.partition(":-")
        if not VARIABLE_PATTERN.fullmatch(name):
            raise MissingReplacement(
                f'wanted the name of an environment variable, got "{name}"',
                "as in ${env:NAME} or ${env:NAME:-default}",
            )
        if name.startswith(SECRET_PREFIX):
            raise MissingReplacement(
                f'the environment variable "{name}" is a secret',
                f"did you mean ${{secret:{name.removeprefix(SECRET_PREFIX)}}}?",
            )
        value = self.env.get(name)
        if dash and not value:
            return default
        if value is None:
            near = find_nearest_name(name, self.env)
            hint = (
                f"did you mean ${{env:{near}}}?"
                if near
                else (f"set it, or give a default: ${{env:{name}:-...}}")
            )
            raise MissingReplacement(f'the environment variable "{name}" is not set', hint)
        return _require_utf8(value, f'the environment variable "{name}"')

    def _read_file(self, rest: str) -> str:
        if not rest:
            raise MissingReplacement("wanted a path, got nothing", "as in ${file:query.sql}")
        return self._read_cached(self.folder / rest, f'the file "{rest}"')

    def _read_query(self, rest: str) -> Text:
        """Return the text of a file with a query, with its positions in that file."""
        text = self._read_file(rest)
        self._count(text)
        name = format_path(self.folder / rest)
        return Text(text, YamlScalar(SourceText(name, text), 0, len(text), text, "="))

    def _count(self, text: str) -> None:
        self._left -= len(text)
        if self._left < 0:
            raise MissingReplacement(f"the inserted texts exceed {MAX_TOTAL // 2**20} MB in total")

    def _read_secret(self, rest: str) -> str:
        if not SECRET_NAME_PATTERN.fullmatch(rest):
            raise MissingReplacement(
                f'wanted the name of a secret, got "{rest}"', "as in ${secret:NAME}"
            )
        value = self.env.get(SECRET_PREFIX + rest)
        if value is not None:
            return _require_utf8(value, f'the secret "{rest}"')
        folder = self.env.get(SECRETS_FOLDER_VARIABLE)
        if folder and (Path(folder) / rest).is_file():
            return self._read_cached(Path(folder) / rest, f'the secret "{rest}"')
        known = [
            name.removeprefix(SECRET_PREFIX) for name in self.env if name.startswith(SECRET_PREFIX)
        ]
        hint = suggest_name(rest, known) or (
            f"set {SECRET_PREFIX}{rest}, or put a file {rest} into the folder that "
            f"{SECRETS_FOLDER_VARIABLE} names"
        )
        raise MissingReplacement(f'the secret "{rest}" is not set', hint)

    def _read_cached(self, path: Path, what: str) -> str:
        if path not in self.files:
            self.files[path] = _read_text(path, what)
        return self.files[path]


def _read_text(path: Path, what: str) -> str:
    try:
        if path.exists() and not path.is_file():
            raise MissingReplacement(
                f"{what} is {'a folder' if path.is_dir() else 'not a regular file'}"
            )
        if not path.exists():
            raise MissingReplacement(f"{what} does not exist", _suggest_file(path))
        with path.open("rb") as opened:
            content = opened.read(MAX_FILE + 1)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or "unknown reason").lower()
        raise MissingReplacement(f"{what} cannot be read: {reason}") from None
    if len(content) > MAX_FILE:
        raise MissingReplacement(f"{what} is larger than {MAX_FILE // 1024} KB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise MissingReplacement(f"{what} is not UTF-8") from None
    return text.removesuffix("\n").removesuffix("\r")


def _suggest_file(path: Path) -> str:
    try:
        found = find_nearest_file(path.name, sorted(os.listdir(path.parent))[:1000])
        return f'did you mean "{found}"?' if found else ""
    except OSError:
        return f'there is no folder "{path.parent}"'


def _require_utf8(value: str, what: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise MissingReplacement(f"{what} is not UTF-8") from None
    return value
