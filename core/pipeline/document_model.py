"""The base class of the models of the document.

Each field has a reading, which converts its value and reports errors; a model only sorts keys into
fields. It is our own class because a general one has to be imported and to compile a validator of
each model, which took a seventh of the CPU of each start (docs/decisions/0063). The annotations of
a model are evaluated when its fields are first used: most models are not in a document.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import get_annotations
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, get_args, get_origin

from headrace.core.pipeline.values import FieldReading
from headrace.core.types.lazy_dataclass import dataclass

KeyPath: TypeAlias = tuple[int | str, ...]

REQUIRED = object()
"""The default of a field without one."""


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """The default, key and description of a field, as its model declares them."""

    default: Any = REQUIRED
    alias: str | None = None
    description: str | None = None


def Field(
    default: Any = REQUIRED, *, alias: str | None = None, description: str | None = None
) -> Any:
    """Declare a field; its alias is the key as users write it."""
    return FieldSpec(default, alias, description)


@dataclass(frozen=True, slots=True)
class ModelField:
    """A field of a model: its type, and its reading or the model that is nested in it."""

    name: str
    key: str
    annotation: Any
    reading: FieldReading | None
    nested: type[DocumentModel] | None
    default: Any
    description: str | None

    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is REQUIRED

    def read(self, value: object) -> object:
        """Return the value of the field. Raises InvalidValue or InvalidSection."""
        if self.reading is not None:
            return self.reading.read(value)
        assert self.nested is not None, f"{self.key} is filled by the loader"
        return self.nested.model_validate(value)


@dataclass(frozen=True, slots=True)
class SectionError:
    """An error in a section: an invalid value, a key too many or too few, or no mapping."""

    kind: Literal["invalid", "unknown", "missing", "not_a_mapping"]
    at: KeyPath
    value: object
    cause: ValueError | None = None


class InvalidSection(ValueError):
    """All errors of a section that a model does not accept."""

    def __init__(self, *errors: SectionError) -> None:
        super().__init__("a section could not be read")
        self.errors = errors


class _Fields:
    """The fields of a class by name, found when they are first used."""

    def __get__(self, instance: object, owner: type[DocumentModel]) -> Mapping[str, ModelField]:
        found: Mapping[str, ModelField] | None = owner.__dict__.get("_found_fields")
        if found is None:
            found = {}
            for base in reversed(owner.__mro__):
                found |= {name: _build_field(base, name) for name in _list_own_fields(base)}
            for field in found.values():
                known = field.reading or field.nested or field.name in owner.loader_fields
                assert known, f"{owner.__name__}.{field.key} has no reading"
            owner._found_fields = found
        return found


class DocumentModel:
    """A mapping of the document with known keys; each field has a reading and a description.

    Instances are frozen.
    """

    model_fields: ClassVar[_Fields] = _Fields()

    loader_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that the loader fills; users do not write them."""

    one_of: ClassVar[tuple[str, ...]] = ()
    """Alternative keys: exactly one must be present, which the loader checks."""

    usual_keys: ClassVar[tuple[str, ...]] = ()
    """The keys that a hint writes where a rule of the model, and no field, says which it needs."""

    origin: ClassVar[tuple[str, ...]] = ()
    """Keys of a connector's options that say where it reads or writes, not how."""

    key_aliases: ClassVar[Mapping[str, str]] = {}
    """Names that users of other systems give to keys of this model, with the right key."""

    _declared: ClassVar[Mapping[str, FieldSpec]] = {}
    _all_declared: ClassVar[Mapping[str, FieldSpec]] = {}
    """The declared fields with those of base classes; `model_fields` has their readings too."""
    _found_fields: ClassVar[Mapping[str, ModelField]]

    def __init_subclass__(cls) -> None:
        # A default is no attribute of the class.
        cls._declared = {}
        for name in _list_own_fields(cls):
            default = cls.__dict__.get(name, REQUIRED)
            cls._declared[name] = default if isinstance(default, FieldSpec) else FieldSpec(default)
            if default is not REQUIRED:
                delattr(cls, name)
        declared = dict[str, FieldSpec]()
        for base in reversed(cls.__mro__):
            declared |= base.__dict__.get("_declared", {})
        cls._all_declared = declared

    def __init__(self, **values: Any) -> None:
        fields = type(self)._all_declared
        for name in values.keys() - fields.keys():
            raise TypeError(f"{type(self).__name__} has no field {name}")
        for name, field in fields.items():
            if name not in values and field.default is REQUIRED:
                raise TypeError(f"{type(self).__name__} needs {name}")
        self._fill(values)

    def _fill(self, values: Mapping[str, Any]) -> None:
        given = self.__dict__
        for name, field in type(self)._all_declared.items():
            if name in values:
                given[name] = values[name]
            elif field.default is not REQUIRED:
                given[name] = field.default
        given["model_fields_set"] = frozenset(values)

    model_fields_set: frozenset[str]
    """The fields that were given, and are no defaults."""

    @classmethod
    def model_construct(cls, **values: Any) -> Self:
        """Return an instance of values that are read already; required ones may be missing."""
        made = cls.__new__(cls)
        made._fill(values)
        return made

    @classmethod
    def model_validate(cls, data: object) -> Self:
        """Return the instance of a mapping of the document. Raises InvalidSection."""
        if isinstance(data, cls):
            return data
        if not isinstance(data, dict):
            raise InvalidSection(SectionError("not_a_mapping", (), data))
        values, errors = dict[str, Any](), list[SectionError]()
        keys = cls.fields_by_key()
        for key, name in keys.items():
            field = cls.model_fields[name]
            if key in data:
                values[name] = _read_or_collect(errors, field.read, data[key], key)
            elif field.is_required():
                errors.append(SectionError("missing", (key,), data))
        unknown = [str.__str__(key) for key in data if key not in keys]
        errors += (SectionError("unknown", (key,), data[key]) for key in unknown)
        if errors:
            raise InvalidSection(*errors)
        made = cls.model_construct(**values)
        _read_or_collect(errors, lambda _: made.check_combination(), data)
        if errors:
            raise InvalidSection(*errors)
        return made

    def check_combination(self) -> None:
        """Check what no single field knows. Raises InvalidValue."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """Return a copy with other values of some fields."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.__dict__.update(update or {})
        made.__dict__["model_fields_set"] = self.model_fields_set | (update or {}).keys()
        return made

    def get_values(self) -> dict[str, Any]:
        """Return the values by the names of their fields."""
        return {name: value for name, value in vars(self).items() if name != "model_fields_set"}

    @classmethod
    def fields_by_key(cls) -> dict[str, str]:
        """Return the keys that users write, with the names of their fields."""
        return {field.key: name for name, field in cls.model_fields.items()}

    @classmethod
    def get_field(cls, key: str) -> ModelField | None:
        """Return the field of a key, if there is one."""
        name = cls.fields_by_key().get(key)
        return cls.model_fields[name] if name else None

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.get_values() == other.get_values()

    def __hash__(self) -> int:
        return hash((type(self), *self.get_values().values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.get_values().items())
        return f"{type(self).__name__}({values})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot assign to {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot delete {name}")


def _read_or_collect(
    errors: list[SectionError], read: Callable[[Any], object], value: object, *at: str
) -> object:
    """Return the value as read, or collect its errors and return None."""
    try:
        return read(value)
    except InvalidSection as invalid:
        errors += (replace(each, at=(*at, *each.at)) for each in invalid.errors)
    except ValueError as error:
        errors.append(SectionError("invalid", at, value, error))
    return None


def _list_own_fields(cls: type) -> list[str]:
    """Return the fields that a class itself declares."""
    if not issubclass(cls, DocumentModel) or cls is DocumentModel:
        return []
    annotations = get_annotations(cls).items()
    return [name for name, text in annotations if not text.startswith("ClassVar")]


def _build_field(cls: type[DocumentModel], name: str) -> ModelField:
    """Build a field that the class itself declares."""
    declared = cls._declared[name]
    annotation = eval(get_annotations(cls)[name], vars(sys.modules[cls.__module__]))
    metadata = list[Any]()
    if get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
    inner = get_args(annotation)
    metadata += (each for arg in inner for each in getattr(arg, "__metadata__", ()))
    reading = next((each for each in metadata if isinstance(each, FieldReading)), None)
    nested = reading.part if reading else None
    return ModelField(
        name,
        declared.alias or name,
        annotation,
        reading,
        nested if nested and issubclass(nested, DocumentModel) else _find_model(annotation, *inner),
        declared.default,
        declared.description,
    )


def _find_model(*types: Any) -> type[DocumentModel] | None:
    return next((t for t in types if isinstance(t, type) and issubclass(t, DocumentModel)), None)
