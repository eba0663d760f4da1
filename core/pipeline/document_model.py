"""The base class of the models of the document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

from headrace.core.pipeline.values import FieldReading


class DocumentModel(BaseModel):
    """A mapping of the document with known keys; each field has a reading and a description.

    A field's alias is the key as users write it. Instances are frozen and hide their input.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
        defer_build=True,
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        # A field without a reading would accept a Text as it is. (The name of a field may hide
        # that of a reading: annotations are looked up in the body of the class first.)
        for key, name in cls.fields_by_key().items():
            field = cls.model_fields[name]
            known = get_reading(field) or get_nested_model(field) or name in cls.loader_fields
            assert known, f"{cls.__name__}.{key} has no reading"

    loader_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that the loader fills; users do not write them."""

    planned_keys: ClassVar[tuple[str, ...]] = ()
    """Keys that are planned and not built yet."""

    one_of: ClassVar[tuple[str, ...]] = ()
    """Alternative keys: exactly one must be present, which the loader checks."""

    origin: ClassVar[tuple[str, ...]] = ()
    """Keys of a connector's options that say where it reads or writes, not how."""

    key_aliases: ClassVar[Mapping[str, str]] = {}
    """Names that users of other systems give to keys of this model, with the right key."""

    @classmethod
    def fields_by_key(cls) -> dict[str, str]:
        """Return the keys that users write, with the names of their fields."""
        return {field.alias or name: name for name, field in cls.model_fields.items()}

    @classmethod
    def get_field(cls, key: str) -> FieldInfo | None:
        """Return the field of a key, if there is one."""
        name = cls.fields_by_key().get(key)
        return cls.model_fields[name] if name else None


def get_reading(field: FieldInfo) -> FieldReading | None:
    """Return the reading of a field; None for a nested model."""
    return next((extra for extra in _annotations(field) if isinstance(extra, FieldReading)), None)


def get_nested_model(field: FieldInfo) -> type[DocumentModel] | None:
    """Return the model nested in a field, if there is one."""
    reading = get_reading(field)
    if reading and reading.part and issubclass(reading.part, DocumentModel):
        return reading.part
    for candidate in (field.annotation, *getattr(field.annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, DocumentModel):
            return candidate
    return None


def _annotations(field: FieldInfo) -> Iterator[Any]:
    yield from field.metadata
    for inner in getattr(field.annotation, "__args__", ()):
        yield from getattr(inner, "__metadata__", ())
