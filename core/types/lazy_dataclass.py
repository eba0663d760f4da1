"""Dataclasses that are cheap to define.

The decorator of the standard library compiles up to six methods of each class, which was a quarter
of the CPU of a start. Here only `__init__` is compiled, when the first object is made, and the
other methods are closures: most classes have no object in a run.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeAlias

Method: TypeAlias = "Callable[..., Any]"


def build_decorator(
    *, frozen: bool = False, eq: bool = True, order: bool = False, **options: bool
) -> Callable[[Any], Any]:
    """Return the decorator of a class.

    The options are those of `dataclasses.dataclass`, except `unsafe_hash`. Fields of the type
    InitVar are not supported.
    """

    def decorate(cls: Any) -> Any:
        written = {name for name, value in cls.__dict__.items() if value is not None}
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
        fields = dataclasses.fields(made)
        methods: dict[str, Method | None] = {
            "__init__": _build_init(made, frozen=frozen),
            "__repr__": _build_repr([each.name for each in fields if each.repr]),
        }
        if eq:
            hashed = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
            methods["__eq__"] = _build_eq([each.name for each in fields if each.compare])
            methods["__hash__"] = _build_hash(hashed) if frozen else None
        if order:
            methods |= _build_order([each.name for each in fields if each.compare])
        if frozen:
            methods |= _build_refusals(made, frozenset(each.name for each in fields))
            methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
        for name in methods.keys() - written:
            setattr(made, name, methods[name])
        return made

    return decorate


def _build_init(cls: type, *, frozen: bool) -> Method:
    """Return an `__init__` that replaces itself with the compiled one when it is called."""

    def __init__(self: object, *args: object, **kwargs: object) -> None:
        compiled = _compile_init(cls, frozen=frozen)
        cls.__init__ = compiled  # type: ignore[misc]
        compiled(self, *args, **kwargs)

    return __init__


def _compile_init(cls: type, *, frozen: bool) -> Method:
    """Compile the `__init__` that assigns each field its argument, its default or a new value."""
    scope: dict[str, Any] = {"__missing": MISSING, "__assign": object.__setattr__}
    # An argument by keyword may have no default after one that has.
    fields = sorted(dataclasses.fields(cls), key=attrgetter("kw_only"))
    parameters, lines = ["self"], []
    for field in fields:
        name, value, default = field.name, field.name, ""
        if field.default_factory is not MISSING:
            scope[f"__new_{name}"] = field.default_factory
            value, default = f"__new_{name}() if {name} is __missing else {name}", "=__missing"
        elif field.default is not MISSING:
            scope[f"__default_{name}"] = field.default
            default = f"=__default_{name}"
        if field.init:
            if field.kw_only and "*" not in parameters:
                parameters.append("*")
            parameters.append(f"{name}{default}")
        elif default:
            lines.append(f"{name}{default}")  # it is no parameter
        if field.init or default:
            lines.append(
                f"__assign(self, {name!r}, {value})" if frozen else f"self.{name} = {value}"
            )
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n    ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):\n    {body}", scope)
    return scope["__init__"]  # type: ignore[no-any-return]


def _build_repr(names: list[str]) -> Method:
    def __repr__(self: object) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"

    return recursive_repr()(__repr__)


def _build_eq(names: list[str]) -> Method:
    read = _build_reader(names)

    def __eq__(self: object, other: object) -> bool:
        return read(self) == read(other) if type(other) is type(self) else NotImplemented

    return __eq__


def _build_order(names: list[str]) -> dict[str, Method]:
    read = _build_reader(names)

    def build(compare: Method) -> Method:
        def method(self: object, other: object) -> Any:
            if type(other) is not type(self):
                return NotImplemented
            return compare(read(self), read(other))

        return method

    comparisons = (operator.lt, operator.le, operator.gt, operator.ge)
    return {f"__{each.__name__}__": build(each) for each in comparisons}


def _build_hash(names: list[str]) -> Method:
    read = _build_reader(names)

    def __hash__(self: object) -> int:
        return hash(read(self))

    return __hash__


def _build_reader(names: list[str]) -> Callable[[object], object]:
    """Return a function of an object to the tuple of its values."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda value: ()
    read = attrgetter(*names)
    return lambda value: (read(value),)


def _build_refusals(cls: Any, names: frozenset[str]) -> dict[str, Method]:
    """Return the methods that refuse to assign and to delete fields; a subclass may have more."""

    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _get_state(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = build_decorator
