"""What the models of the document have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


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
    )

    @classmethod
    def written(cls) -> dict[str, str]:
        """The keys users write, and the fields they fill."""
        return {field.alias or name: name for name, field in cls.model_fields.items()}
