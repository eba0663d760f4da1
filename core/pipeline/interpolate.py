"""Replacement of `${env:NAME}`, `${file:path}` and `${secret:NAME}` in scalars, after YAML is read.

A value from outside can therefore never change the document's structure. Inserted text is not
searched for further replacements. `$${` writes a literal `${`. A text that contains a secret stays
marked as secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.core.pipeline.nodes import Scalar
from headrace.core.pipeline.text import Piece, Text
from headrace.core.problems import Problem, did_you_mean, nearest, nearest_file

MAX_FILE = 2**20
MAX_PROBLEMS = 20
MAX_TOTAL = 4 * 2**20
SECRET = "HEADRACE_SECRET_"
SECRETS = "HEADRACE_SECRETS"

OPENING = re.compile(r"\$\$\{|\$\{")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
SECRET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
KINDS = "${env:NAME}, ${env:NAME:-default}, ${file:path} or ${secret:NAME}"


class Missing(Exception):
    """An error: there is no value to insert, for this reason and with this hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(slots=True)
class Replaced:
    """A scalar's value while it is built."""

    parts: list[str] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    secret: bool = False

    def put(self, start: int, end: int, text: str) -> None:
        """Insert a text in place of the characters `[start, end)` of the scalar."""
        self.pieces.append(Piece(start, end, len(text)))
        self.parts.append(text)


class Interpolator:
    """The replacements of one document. Each file is read once; their total size has a limit."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.env = env
        self._files: dict[Path, str] = {}
        self._left = MAX_TOTAL
        self._sources: dict[str, Callable[[str], str]] = {
            "env": self._variable,
            "file": self._file,
            "secret": self._secret,
        }

    def text(self, scalar: Scalar, subject: str = "") -> tuple[Text | None, list[Problem]]:
        """Return the value after all replacements; or None and the problems."""
        if "${" not in scalar.value:
            return Text(scalar.value, scalar), []
        raw = Text(scalar.value, scalar)
        done, problems, at = Replaced(), [], 0
        while found := OPENING.search(scalar.value, at):
            done.parts.append(scalar.value[at : found.start()])
            at = self._end(scalar.value, found)
            try:
                self._replace(scalar.value, found, at, done)
            except Missing as missing:
                place = raw.locate(found.start(), at)
                problems.append(Problem(missing.message, place, missing.hint, subject))
                if len(problems) >= MAX_PROBLEMS:
                    break
        done.parts.append(scalar.value[at:])
        if problems:
            return None, problems
        return Text("".join(done.parts), scalar, tuple(done.pieces), done.secret), []

    def _end(self, value: str, found: re.Match[str]) -> int:
        if found[0] == "$${":
            return found.end()
        end = value.find("}", found.end())
        return end + 1 if end >= 0 else len(value)

    def _replace(self, value: str, found: re.Match[str], end: int, done: Replaced) -> None:
        if found[0] == "$${":
            return done.put(found.start(), end, "${")
        body = value[found.end() : end - 1]
        if value[end - 1] != "}" or end == found.end():
            raise Missing('this "${" is not closed', 'add a "}"; "$${" writes a literal "${"')
        if "${" in body:
            raise Missing('a "${" cannot be inside another', "a default has no ${ in it")
        kind, _, rest = body.partition(":")
        if kind not in self._sources:
            raise self._unknown(body, kind)
        text = self._sources[kind](rest)
        self._left -= len(text)
        if self._left < 0:
            raise Missing(f"the inserted texts exceed {MAX_TOTAL // 2**20} MB in total")
        done.put(found.start(), end, text)
        done.secret = done.secret or kind == "secret"

    def _unknown(self, body: str, kind: str) -> Missing:
        name = body.partition(":-")[0]
        near = nearest(kind, self._sources) if ":" in body else ""
        hint = f"did you mean ${{{near}:{body.partition(':')[2]}}}?" if near else ""
        if not near and VARIABLE.fullmatch(name):
            hint = f'did you mean ${{env:{body}}}? "$${{" writes a literal "${{"'
        return Missing(f'wanted {KINDS}, got "${{{body}}}"', hint)

    def _variable(self, rest: str) -> str:
        name, dash, default = rest.partition(":-")
        if not VARIABLE.fullmatch(name):
            raise Missing(
                f'wanted the name of an environment variable, got "{name}"',
                "as in ${env:NAME} or ${env:NAME:-default}",
            )
        if name.startswith(SECRET):
            raise Missing(
                f'the environment variable "{name}" is a secret',
                f"did you mean ${{secret:{name.removeprefix(SECRET)}}}?",
            )
        value = self.env.get(name)
        if dash and not value:
            return default
        if value is None:
            near = nearest(name, self.env)
            hint = (
                f"did you mean ${{env:{near}}}?"
                if near
                else (f"set it, or give a default: ${{env:{name}:-...}}")
            )
            raise Missing(f'the environment variable "{name}" is not set', hint)
        return _utf8(value, f'the environment variable "{name}"')

    def _file(self, rest: str) -> str:
        if not rest:
            raise Missing("wanted a path, got nothing", "as in ${file:query.sql}")
        return self._content(self.folder / rest, f'the file "{rest}"')

    def _secret(self, rest: str) -> str:
        if not SECRET_NAME.fullmatch(rest):
            raise Missing(f'wanted the name of a secret, got "{rest}"', "as in ${secret:NAME}")
        value = self.env.get(SECRET + rest)
        if value is not None:
            return _utf8(value, f'the secret "{rest}"')
        folder = self.env.get(SECRETS)
        if folder and (Path(folder) / rest).is_file():
            return self._content(Path(folder) / rest, f'the secret "{rest}"')
        known = [name.removeprefix(SECRET) for name in self.env if name.startswith(SECRET)]
        hint = did_you_mean(rest, known) or (
            f"set {SECRET}{rest}, or put a file {rest} into the folder that {SECRETS} names"
        )
        raise Missing(f'the secret "{rest}" is not set', hint)

    def _content(self, path: Path, what: str) -> str:
        if path not in self._files:
            self._files[path] = _read(path, what)
        return self._files[path]


def _read(path: Path, what: str) -> str:
    try:
        if not path.is_file():
            raise Missing(
                f"{what} {'is a folder' if path.is_dir() else 'does not exist'}", _near(path)
            )
        with path.open("rb") as opened:
            content = opened.read(MAX_FILE + 1)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or "unknown reason").lower()
        raise Missing(f"{what} cannot be read: {reason}") from None
    if len(content) > MAX_FILE:
        raise Missing(f"{what} is larger than {MAX_FILE // 1024} KB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Missing(f"{what} is not UTF-8") from None
    return text.removesuffix("\n").removesuffix("\r")


def _near(path: Path) -> str:
    try:
        found = nearest_file(path.name, sorted(os.listdir(path.parent))[:1000])
        return f'did you mean "{found}"?' if found else ""
    except OSError:
        return f'there is no folder "{path.parent}"'


def _utf8(value: str, what: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise Missing(f"{what} is not UTF-8") from None
    return value
