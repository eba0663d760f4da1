"""Lazy dataclasses behave as those of the standard library."""

from __future__ import annotations

import dataclasses
import math
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from headrace.core.types import lazy_dataclass

ROOT = Path(__file__).parent.parent.parent.parent
DECORATORS: dict[str, Any] = {
    "standard": dataclasses.dataclass,
    "lazy": lazy_dataclass.build_decorator,
}
OPTIONS: list[dict[str, bool]] = [
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True},
    {"frozen": True, "slots": True, "order": True},
    {"slots": True},
    {"slots": True, "eq": False},
    {},
]


def make(decorator: str, **options: bool) -> Any:
    class Point:
        """A point."""

        kind: ClassVar[str] = "point"
        x: float
        y: float = 2.0
        names: list[str] = field(default_factory=list)
        note: str = field(default="", compare=False, repr=False)
        size: float = field(init=False, default=1.0)
        parts: tuple[int, ...] = field(init=False, default_factory=tuple)
        last: str = field(kw_only=True, default="z")
        must: str = field(kw_only=True)

        def double(self) -> float:
            return self.x * 2

    Point.__qualname__ = "Point"
    return DECORATORS[decorator](**options)(Point)


def outcome(work: Callable[[], object]) -> object:
    """The result of the work, or its error."""
    try:
        return work()
    except Exception as error:
        # The standard library has the name of the function in another form.
        return type(error), str(error).rpartition("__init__()")[2]


CASES: dict[str, Callable[[Any], object]] = {
    "repr": lambda cls: repr(cls(1, must="m")),
    "arguments": lambda cls: repr(cls(1, 3, ["a"], "n", must="m", last="l")),
    "keywords": lambda cls: repr(cls(names=["b"], x=5, must="m")),
    "missing": lambda cls: cls(),
    "missing keyword": lambda cls: cls(1),
    "too many": lambda cls: cls(1, 2, [], "", 3, must="m"),
    "unknown": lambda cls: cls(1, must="m", other=1),
    "not a parameter": lambda cls: cls(1, must="m", size=1),
    "new list": lambda cls: cls(1, must="m").names is cls(1, must="m").names,
    "equal": lambda cls: cls(1, must="m") == cls(1, must="m"),
    "differs": lambda cls: cls(1, must="m") == cls(2, must="m"),
    "not compared": lambda cls: cls(1, note="a", must="m") == cls(1, note="b", must="m"),
    "another class": lambda cls: cls(1, must="m") == 1,
    "nan is itself": lambda cls: (lambda n: cls(n, must="m") == cls(n, must="m"))(math.nan),
    "below": lambda cls: cls(1, must="m") < cls(2, must="m"),
    "not below itself": lambda cls: cls(1, must="m") < cls(1, must="m"),
    "above": lambda cls: cls(1, must="m") >= cls(1, 3, must="m"),
    "above another class": lambda cls: cls(1, must="m") > 1,
    "hash": lambda cls: hash(cls(1, names=(), must="m")) == hash(cls(1, names=(), must="m")),
    "hash of a list": lambda cls: hash(cls(1, must="m")) and None,
    "assign": lambda cls: setattr(cls(1, must="m"), "x", 2),
    "delete": lambda cls: delattr(cls(1, must="m"), "x"),
    "replace": lambda cls: repr(replace(cls(1, must="m"), y=9)),
    "replace what is no parameter": lambda cls: replace(cls(1, must="m"), size=9),
    "fields": lambda cls: [(f.name, f.init, f.compare, f.kw_only) for f in fields(cls)],
    "match": lambda cls: cls.__match_args__,
    "method": lambda cls: cls(4, must="m").double(),
    "slots": lambda cls: getattr(cls, "__slots__", None),
}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_a_lazy_dataclass_is_one_of_the_standard_library(
    case: str, options: dict[str, bool]
) -> None:
    wanted = outcome(lambda: CASES[case](make("standard", **options)))
    lazy = make("lazy", **options)
    for made in range(lazy_dataclass.INTERPRETED_CALLS + 2):
        assert outcome(lambda: CASES[case](lazy)) == wanted, f"after {made} times"


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Named:
    """A name with methods of its own."""

    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name.lower())

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


def test_methods_of_a_class_stay() -> None:
    assert (repr(Named("A")), Named("a") == Named("b"), hash(Named("a"))) == ("<a>", True, 7)


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Longer(Named):
    """A name with a number."""

    number: int = 2


class Open(Named):
    """A name with attributes that are no fields."""


def test_subclasses_have_the_fields_of_their_bases() -> None:
    assert (Longer("A").name, Longer("a").number) == ("a", 2)
    assert repr(Longer("a", 3)) == "Longer(name='a', number=3)"
    opened = Open("c")
    opened.other = 4  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        opened.name = "d"  # type: ignore[misc]


@lazy_dataclass.dataclass(slots=True)
class Counted:
    """A number that changes."""

    number: int = 2


@dataclasses.dataclass
class CountedByName(Counted):
    """A class of the standard library with the field of a lazy one."""

    name: str = ""


def test_a_standard_dataclass_may_have_a_lazy_base() -> None:
    assert [each.name for each in fields(CountedByName)] == ["number", "name"]
    assert replace(CountedByName(3), name="a") == CountedByName(3, "a")


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Sent:
    """A value that is sent to another process."""

    name: str
    values: tuple[int, ...] = ()


def test_a_frozen_object_can_be_sent() -> None:
    assert pickle.loads(pickle.dumps(Sent("a", (1, 2)))) == Sent("a", (1, 2))


def test_an_object_inside_of_itself_has_a_text() -> None:
    made = make("lazy", slots=True)(1, must="m")
    made.names.append(made)
    assert "names=[...]" in repr(made)


def test_modules_use_lazy_dataclasses() -> None:
    """Errors are below types, and one class has arguments that are no fields."""
    for folder in ("core", "connectors", "state", "cli"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text("utf-8")
            imported = re.search(r"^from dataclasses import .*\bdataclass\b", text, re.MULTILINE)
            if imported and path.parent.name != "errors" and path.name != "lazy_dataclass.py":
                assert "InitVar" in text, (
                    f"{path} imports dataclass from dataclasses: take it from "
                    "headrace.core.types.lazy_dataclass, whose classes are cheap to define"
                )
