"""Models sort the keys of a section into fields, and report all that is wrong with it."""

from __future__ import annotations

import pickle
from typing import Annotated

import pytest

from headrace.core.pipeline.diagnostics import InvalidValue, ValueProblem
from headrace.core.pipeline.document_model import DocumentModel, Field, InvalidSection
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import Name, whole_number


class Size(DocumentModel):
    """A nested section."""

    bytes: Annotated[int, whole_number(1)] = Field(description="How many.")
    unit: Name = Text("kb")


class Part(DocumentModel):
    """A section with a nested one."""

    loader_fields = ("position",)
    from_: Name = Field(alias="from", description="Its input.")
    size: Size | None = Field(None, description="Its size.")
    count: Annotated[int, whole_number(1)] | None = None

    def check_combination(self) -> None:
        if self.size is not None and self.count is not None:
            raise InvalidValue(ValueProblem(message="either size or count"), partial=self)


class Loaded(Part):
    """A part with what the loader adds."""

    position: int
    count: Annotated[int, whole_number(1)] = 7


def list_errors(data: object) -> list[tuple[str, tuple[int | str, ...]]]:
    with pytest.raises(InvalidSection) as caught:
        Part.model_validate(data)
    return [(error.kind, error.at) for error in caught.value.errors]


def test_values_are_read_and_defaults_are_filled_in() -> None:
    part = Part.model_validate({"from": Text("a"), "size": {"bytes": Text("3")}})
    assert part.size is not None
    assert (part.from_, part.size.bytes, part.size.unit, part.count) == ("a", 3, "kb", None)
    assert part.model_fields_set == {"from_", "size"}
    assert part.get_values() == {"from_": "a", "size": part.size, "count": None}


def test_all_errors_are_reported_with_the_keys_that_lead_to_them() -> None:
    nested = {"bytes": Text("none"), "color": Text("red")}
    assert list_errors({"size": nested, "count": Text("x"), "form": Text("y")}) == [
        ("missing", ("from",)),
        ("invalid", ("size", "bytes")),
        ("unknown", ("size", "color")),
        ("invalid", ("count",)),
        ("unknown", ("form",)),
    ]


def test_a_section_and_what_is_nested_in_it_are_mappings() -> None:
    assert list_errors(Text("a")) == [("not_a_mapping", ())]
    assert list_errors({"from": Text("a"), "size": Text("b")}) == [("not_a_mapping", ("size",))]


def test_the_name_of_a_field_is_no_key_if_it_has_an_alias() -> None:
    assert list_errors({"from_": Text("a")}) == [("missing", ("from",)), ("unknown", ("from_",))]


def test_keys_that_do_not_go_together_are_an_error_of_the_section() -> None:
    both = {"from": Text("a"), "size": {"bytes": Text("3")}, "count": Text("2")}
    with pytest.raises(InvalidSection) as caught:
        Part.model_validate(both)
    (error,) = caught.value.errors
    assert isinstance(error.cause, InvalidValue)
    assert error.at == () and error.cause.partial == Part(from_="a", size=Size(bytes=3), count=2)


def test_a_subclass_has_the_fields_of_its_base_and_may_replace_them() -> None:
    assert list(Loaded.model_fields) == ["from_", "size", "count", "position"]
    loaded = Loaded.model_construct(from_="a", position=3)
    assert (loaded.count, loaded.position, loaded.size) == (7, 3, None)
    assert Part.model_fields["count"].default is None


def test_a_copy_has_other_values_and_equals_what_has_the_same() -> None:
    part = Part(from_="a")
    copy = part.model_copy(update={"count": 2})
    assert (copy.count, part.count) == (2, None)
    assert copy.model_fields_set == frozenset(("from_", "count"))
    assert copy == Part(from_="a", count=2) != part and hash(copy) == hash(Part(from_="a", count=2))
    assert copy != Loaded(from_="a", count=2, position=1)
    assert repr(copy) == "Part(from_='a', size=None, count=2)"
    assert pickle.loads(pickle.dumps(copy)) == copy


def test_an_instance_cannot_be_changed() -> None:
    part = Part(from_="a")
    with pytest.raises(AttributeError, match="Part is frozen: cannot assign to count"):
        part.count = 3
    with pytest.raises(AttributeError, match="Part is frozen: cannot delete count"):
        del part.count


def test_a_constructor_takes_fields_only_and_needs_those_without_a_default() -> None:
    with pytest.raises(TypeError, match="Part needs from_"):
        Part()
    with pytest.raises(TypeError, match="Part has no field other"):
        Part(from_="a", other=1)


class Plain(DocumentModel):
    """A model with a field that would take a text as it is."""

    count: int = 3


def test_a_field_needs_a_reading() -> None:
    with pytest.raises(AssertionError, match=r"Plain\.count has no reading"):
        Plain.fields_by_key()
