"""What the models of the document have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

from headrace.core.pipeline.values import Reading


class Part(BaseModel):
    """A mapping of the document with known keys: each field says how it is read and what it is for.

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
        # A field that reads nothing would take a Text as it is. (The name of a reading may be
        # hidden by that of a field: annotations are looked up in the body of the class first.)
        for key, name in cls.written().items():
            field = cls.model_fields[name]
            known = reading_of(field) or part_of(field) or name in cls.added
            assert known, f"{cls.__name__}.{key} does not say how it is read"

    added: ClassVar[tuple[str, ...]] = ()
    """Fields that are filled by the loader and are no keys of users."""

    later: ClassVar[tuple[str, ...]] = ()
    """Keys that are decided and not built yet."""

    one_of: ClassVar[tuple[str, ...]] = ()
    """Keys of which exactly one is there; the loader sees to it."""

    origin: ClassVar[tuple[str, ...]] = ()
    """Keys of a connector's options that say where it reads or writes; others say how."""

    habits: ClassVar[Mapping[str, str]] = {}
    """What others call a key of this part."""

    @classmethod
    def written(cls) -> dict[str, str]:
        """The keys users write, and the fields they fill."""
        return {field.alias or name: name for name, field in cls.model_fields.items()}

    @classmethod
    def field(cls, key: str) -> FieldInfo | None:
        """What is said of the field that a key fills."""
        name = cls.written().get(key)
        return cls.model_fields[name] if name else None


def reading_of(field: FieldInfo) -> Reading | None:
    """How a field is read; none for another part."""
    return next((extra for extra in _extras(field) if isinstance(extra, Reading)), None)


def part_of(field: FieldInfo) -> type[Part] | None:
    """The part that stands in a field, if it is one."""
    reading = reading_of(field)
    if reading and reading.part and issubclass(reading.part, Part):
        return reading.part
    for candidate in (field.annotation, *getattr(field.annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, Part):
            return candidate
    return None


def _extras(field: FieldInfo) -> Iterator[Any]:
    yield from field.metadata
    for inner in getattr(field.annotation, "__args__", ()):
        yield from getattr(inner, "__metadata__", ())
