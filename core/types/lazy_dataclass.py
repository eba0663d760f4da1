"""Dataclasses that are cheap to define.

The decorator of the standard library examines each field and compiles up to six methods of each
class, which was a third of the CPU of a start. Here only the slots are made at once. The fields
are made when something first reads them, and a method when it is first called: most classes have
no object in a run.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError
from inspect import get_annotations
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeAlias

Method: TypeAlias = "Callable[..., Any]"
Fields: TypeAlias = "dict[str, dataclasses.Field[Any]]"
FIELDS = "__dataclass_fields__"
STANDARD = dataclasses.dataclass(init=False, repr=False, eq=False)
COMPARISONS = ("lt", "le", "gt", "ge")

INTERPRETED_CALLS = 3
"""The objects of a class that are made before its `__init__` is compiled.

Two of three classes have no more in a query at the shell.
"""


class LazyAttribute:
    """An attribute of a class that replaces itself with its value when it is first read."""

    def __init__(self, build: Callable[[Any], Any]) -> None:
        self._build = build

    def __set_name__(self, cls: type, name: str) -> None:
        self._cls, self._name = cls, name

    def __get__(self, instance: object, cls: type) -> Any:
        value = self._build(self._cls)
        setattr(self._cls, self._name, value)
        # super() reads the attribute of a base, so it is not looked up again.
        return value.__get__(instance, cls) if hasattr(value, "__get__") else value


def build_decorator(
    *,
    frozen: bool = False,
    eq: bool = True,
    order: bool = False,
    slots: bool = False,
    kw_only: bool = False,
) -> Callable[[Any], Any]:
    """Return the decorator of a class.

    The options are those of `dataclasses.dataclass`. Fields of the types InitVar and KW_ONLY are
    not supported.
    """
    builders: dict[str, Callable[[Any], Any]] = {
        "__match_args__": _list_positional,
        "__init__": lambda cls: _build_init(cls, frozen=frozen),
        "__repr__": _build_repr,
    }
    if eq:
        builders["__eq__"] = _build_eq
    if eq and frozen:
        builders["__hash__"] = _build_hash
    if order:
        builders |= {f"__{name}__": _choose_comparison(name) for name in COMPARISONS}
    if frozen:
        builders["__setattr__"] = _choose_refusal("__setattr__", "assign to")
        builders["__delattr__"] = _choose_refusal("__delattr__", "delete")

    def decorate(cls: Any) -> Any:
        annotations = get_annotations(cls).items()
        types = {name: text for name, text in annotations if not text.startswith("ClassVar")}
        defaults = {name: cls.__dict__[name] for name in types.keys() & cls.__dict__.keys()}
        made: dict[str, Any] = {name: LazyAttribute(build) for name, build in builders.items()}
        made["_declared_fields"] = LazyAttribute(
            lambda cls: _declare_fields(cls, types, defaults, kw_only=kw_only)
        )
        made["__dataclass_fields__"] = LazyAttribute(lambda cls: _build_fields(cls, types))
        if eq and not frozen:
            made["__hash__"] = None
        if frozen:
            made |= {"__getstate__": _get_state, "__setstate__": _set_state}
        written = cls.__dict__
        made = {name: each for name, each in made.items() if written.get(name) is None}
        if slots:
            return _add_slots(cls, list(types), made)
        return _add_attributes(cls, defaults, made)

    return decorate


def _add_slots(cls: Any, names: list[str], made: Mapping[str, Any]) -> Any:
    """Return the class again with these fields as slots, and with these attributes."""
    left_out = {*names, "__dict__", "__weakref__"}
    namespace = {name: each for name, each in cls.__dict__.items() if name not in left_out}
    inherited = {each for base in cls.__mro__ for each in base.__dict__.get("__slots__", ())}
    namespace |= made
    namespace["__slots__"] = tuple(name for name in names if name not in inherited)
    namespace["__qualname__"] = cls.__qualname__
    return type(cls)(cls.__name__, cls.__bases__, namespace)


def _add_attributes(cls: Any, defaults: Mapping[str, Any], made: Mapping[str, Any]) -> Any:
    """Add attributes to the class, whose defaults are no more the calls of `field`."""
    for name, default in defaults.items():
        if isinstance(default, dataclasses.Field):
            if default.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, default.default)
    for name, each in made.items():
        setattr(cls, name, each)
        if isinstance(each, LazyAttribute):
            each.__set_name__(cls, name)
    return cls


def _declare_fields(
    cls: Any, types: Mapping[str, str], defaults: Mapping[str, Any], *, kw_only: bool
) -> Fields:
    """Return the fields of the class after those of its bases.

    They have no types: the standard library takes three times as long to find these.
    """
    fields: Fields = {}
    for base in reversed(cls.__mro__[1:]):
        known = "_declared_fields" if "_declared_fields" in vars(base) else FIELDS
        fields |= getattr(base, known, {})
    for name in types:
        default = defaults.get(name, MISSING)
        is_field = isinstance(default, dataclasses.Field)
        each = default if is_field else dataclasses.field(default=default)
        each.name = name
        each.kw_only = kw_only if each.kw_only is MISSING else each.kw_only
        fields[name] = each
    return fields


def _build_fields(cls: Any, types: Mapping[str, str]) -> Fields:
    """Return the fields of the class after those of its bases, for `dataclasses`."""
    namespace = {"__module__": cls.__module__, "__annotations__": types, "__doc__": "Fields."}
    own = {name: cls._declared_fields[name] for name in types}
    made: Any = STANDARD(type(cls.__name__, (), {**namespace, **own}))
    cls.__dataclass_params__ = made.__dataclass_params__  # for subclasses of the standard decorator
    fields: Fields = {}
    for base in reversed(cls.__mro__[1:]):
        fields |= getattr(base, FIELDS, {})
    return fields | getattr(made, FIELDS)  # type: ignore[no-any-return]


def _list_positional(cls: Any) -> tuple[str, ...]:
    return tuple(f.name for f in cls._declared_fields.values() if f.init and not f.kw_only)


def _build_init(cls: Any, *, frozen: bool) -> Method:
    """Return an `__init__` that replaces itself with the compiled one when it is called often."""
    fields = {each.name: each for each in cls._declared_fields.values()}
    parameters = {name for name, each in fields.items() if each.init}
    required = {name for name in parameters if not _has_default(fields[name])}
    positional = _list_positional(cls)
    assign = object.__setattr__ if frozen else setattr
    is_finished = not hasattr(cls, "__post_init__")
    calls = 0

    def __init__(self: Any, *args: object, **kwargs: object) -> None:
        nonlocal calls
        calls += 1
        given = dict(zip(positional, args, strict=False)) | kwargs
        is_complete = len(given) == len(args) + len(kwargs) and required <= given.keys()
        if calls > INTERPRETED_CALLS or not (is_complete and given.keys() <= parameters):
            cls.__init__ = _compile_init(cls, frozen=frozen)
            cls.__init__(self, *args, **kwargs)
            return
        for name, each in fields.items():
            if name in given:
                assign(self, name, given[name])
            elif each.default_factory is not MISSING:
                assign(self, name, each.default_factory())
            elif each.default is not MISSING:
                assign(self, name, each.default)
        if not is_finished:
            self.__post_init__()

    return __init__


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _compile_init(cls: Any, *, frozen: bool) -> Method:
    """Compile the `__init__` that assigns each field its argument, its default or a new value."""
    scope: dict[str, Any] = {"__missing": MISSING, "__assign": object.__setattr__}
    # An argument by keyword may have no default after one that has.
    fields = sorted(cls._declared_fields.values(), key=attrgetter("kw_only"))
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


def _build_repr(cls: Any) -> Method:
    names = [each.name for each in cls._declared_fields.values() if each.repr]

    def __repr__(self: object) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"

    return recursive_repr()(__repr__)


def _build_eq(cls: Any) -> Method:
    read = _build_reader(_list_compared(cls))

    def __eq__(self: object, other: object) -> bool:
        return read(self) == read(other) if type(other) is type(self) else NotImplemented

    return __eq__


def _choose_comparison(name: str) -> Callable[[Any], Method]:
    """Return the function that builds a method which compares values, such as `__lt__`."""
    compare: Method = getattr(operator, name)

    def build(cls: Any) -> Method:
        read = _build_reader(_list_compared(cls))

        def method(self: object, other: object) -> Any:
            if type(other) is not type(self):
                return NotImplemented
            return compare(read(self), read(other))

        return method

    return build


def _list_compared(cls: Any) -> list[str]:
    return [each.name for each in cls._declared_fields.values() if each.compare]


def _build_hash(cls: Any) -> Method:
    fields = cls._declared_fields.values()
    read = _build_reader([f.name for f in fields if (f.compare if f.hash is None else f.hash)])

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


def _choose_refusal(name: str, change: str) -> Callable[[Any], Method]:
    """Return the function that builds `__setattr__` or `__delattr__` of a frozen class.

    They refuse to change fields; a subclass may have other attributes.
    """

    def build(cls: Any) -> Method:
        names = {each.name for each in cls._declared_fields.values()}

        def method(self: object, attribute: str, *value: object) -> None:
            if type(self) is cls or attribute in names:
                raise FrozenInstanceError(f"cannot {change} field {attribute!r}")
            getattr(super(cls, self), name)(attribute, *value)

        return method

    return build


def _get_state(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = build_decorator
