"""Routes of a server: a table of methods and paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headrace.cli.control.http import Request, RequestError, Response

Handler: TypeAlias = "Callable[[Request], Awaitable[Response]]"


@dataclass(frozen=True, slots=True)
class Route:
    """A method, a path and a handler; a word of the path in braces matches any word."""

    method: str
    path: str
    handler: Handler


class MethodNotAllowed(RequestError):
    """The path exists, but only for other methods."""

    def __init__(self, path: str, methods: Sequence[str]) -> None:
        super().__init__(405, "not_allowed", f"{path} is for {' and '.join(methods)}")
        self.methods = methods


def find_route(routes: Sequence[Route], method: str, path: str) -> tuple[Route, Mapping[str, str]]:
    """Find the route of a request, and the values of its words in braces. Raises Bad.

    HEAD is answered as GET is.
    """
    method = "GET" if method == "HEAD" else method
    others = []
    for route in routes:
        names = match_path(route.path, path)
        if names is None:
            continue
        if route.method == method:
            return route, names
        others.append(route.method)
    if others:
        raise MethodNotAllowed(path, others)
    there = ", ".join(dict.fromkeys(route.path for route in routes))
    raise RequestError(404, "no_such_path", f"there is no {path}", f"there are {there}")


def match_path(pattern: str, path: str) -> dict[str, str] | None:
    """Return the values of the words in braces, if the path matches the pattern.

    >>> match_path("/v1/operations/{id}", "/v1/operations/7")
    {'id': '7'}
    >>> match_path("/v1/operations/{id}", "/v1/job")
    """
    wanted, got = pattern.split("/"), path.split("/")
    if len(wanted) != len(got):
        return None
    names = {}
    for want, word in zip(wanted, got, strict=True):
        if want.startswith("{") and word:
            names[want.strip("{}")] = word
        elif want != word:
            return None
    return names
