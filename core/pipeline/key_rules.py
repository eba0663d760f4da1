"""Rules for keys that need or exclude other keys, as rows of a table.

The tables are in `clause_rules`, `join_rules` and `broadcast`; docs/language.md lists those of the
clauses of a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final, Literal, TypeAlias

from headrace.core.pipeline.diagnostics import RuleViolation
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.types.lazy_dataclass import dataclass

EXCLUDES: Final = "does not go with"
Relation: TypeAlias = Literal[
    "does not go with", "needs", "goes with", "applies only together with"
]


@dataclass(frozen=True, slots=True)
class KeyRule:
    """A row of a table: each of `keys` excludes all of `others`, or needs one of them.

    Keys are separated by commas. A key inside a clause is written `join.ttl`, a key with one of its
    values `order: event_time`. The rule applies only with one of `only_with`, and not with one of
    `unless`. A message names at most two of the keys that are needed.
    """

    keys: str
    relation: Relation
    others: str
    hint: str = ""
    only_with: str = ""
    unless: str = ""

    @property
    def excludes(self) -> bool:
        """Whether the keys exclude the others."""
        return self.relation == EXCLUDES

    def find_violations(self, given_keys: AbstractSet[str]) -> Iterator[tuple[str, str]]:
        """Yield the given keys that violate the rule, each with the others in words."""
        if self.only_with and given_keys.isdisjoint(self.only_with.split(", ")):
            return
        if not given_keys.isdisjoint(self.unless.split(", ")):
            return
        others = self.others.split(", ")
        conflicts = [_quote(other) for other in others if other in given_keys]
        if not self.excludes:
            conflicts = [] if conflicts else [" or ".join(map(_quote, others[:2]))]
        yield from (
            (key, other)
            for key in self.keys.split(", ")
            if key in given_keys
            for other in conflicts
        )


def _quote(key: str) -> str:
    return f'"{key.rpartition(".")[2]}"'


def check_rules(
    rules: Iterable[KeyRule], given_keys: AbstractSet[str], clause: str = ""
) -> Iterator[RuleViolation]:
    """Yield the violations of the rules by the given keys, which are inside `clause` if any."""
    inside = f"{clause}: " if clause else ""
    for rule in rules:
        for key, others in rule.find_violations(given_keys):
            path = f"{clause}.{key}" if clause else key
            at = tuple(path.partition(":")[0].split("."))
            yield RuleViolation(at, f"{inside}{_quote(key)} {rule.relation} {others}", rule.hint)


def list_given_keys(model: DocumentModel) -> set[str]:
    """Return the keys that are given; those with a word as their value also as `key: word`."""
    values = {
        key: getattr(model, name)
        for key, name in model.fields_by_key().items()
        if name in model.model_fields_set
    }
    words = (f"{key}: {value}" for key, value in values.items() if isinstance(value, str))
    return {*values, *words}
