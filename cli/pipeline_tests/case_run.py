"""The run of a test in all its variants, and the correction of its expectations."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from headrace.cli.pipeline_tests.isolated_plan import Planner
from headrace.cli.pipeline_tests.report import CaseResult
from headrace.cli.pipeline_tests.runner import Variant, VariantRun
from headrace.core.errors.problems import Location
from headrace.core.pipeline.pipeline_tests.text_edits import EditError, TextEdit
from headrace.core.testing.bound_tests import BoundTest
from headrace.core.testing.corrections import FIXED_CHECKS, Correction, correct_test
from headrace.core.testing.row_text import UnwritableValue
from headrace.core.testing.stream_checks import Mismatch
from headrace.core.types.lazy_dataclass import dataclass

VARIANTS_DIFFER = "the rows differ between the ways of running the test"


@dataclass(frozen=True, slots=True)
class CaseRunner:
    """Runs the tests of one pipeline in each of the variants."""

    file: str
    planner: Planner
    variants: Sequence[Variant]
    seed: int

    def run(self, test: BoundTest) -> CaseResult:
        """Run the variants of a test up to the first that fails."""
        start = time.perf_counter()
        name = test.test.name.reveal()
        for variant in self._list_variants(test):
            mismatches = self._run_variant(test, variant)
            if mismatches:
                variant, mismatches = self._find_cause(test, variant, mismatches)
                seconds = time.perf_counter() - start
                return CaseResult(self.file, name, seconds, mismatches, variant.name)
        return CaseResult(self.file, name, time.perf_counter() - start)

    def _list_variants(self, test: BoundTest) -> Iterator[Variant]:
        """Yield the variants; changes as they came are compared only where batches are whole."""
        for variant in self.variants:
            if variant.is_cut and variant.parallelism > 1 and test.has_changelogs:
                yield variant.uncut_variant
            yield variant

    def _run_variant(self, test: BoundTest, variant: Variant) -> list[Mismatch]:
        return VariantRun(test, self.planner, variant, self.seed).run()

    def _find_cause(
        self, test: BoundTest, variant: Variant, mismatches: list[Mismatch]
    ) -> tuple[Variant, list[Mismatch]]:
        """Return why a test fails in a variant: of its parallelism alone, or of the cuts."""
        if variant.is_cut and variant.parallelism > 1:
            found = self._run_variant(test, variant.uncut_variant)
            return (variant.uncut_variant, found) if found else (variant, mismatches)
        return variant, mismatches

    def fix(self, test: BoundTest) -> CaseResult:
        """Run a test; if it fails, find the edits with which it passes in all its variants."""
        result = self.run(test)
        if not result.mismatches:
            return result
        corrections = list[Correction]()
        left = VariantRun(test, self.planner, self.variants[0], self.seed, corrections).run()
        if left:
            return replace(result, note=_explain_mismatches(left))
        if not corrections:
            return replace(result, note=VARIANTS_DIFFER)
        edits, places = list[TextEdit](), list[tuple[Location, str]]()
        for each in corrections:
            place = each.name.locate()
            try:
                edits += each.edit(test.test.day)
            except (EditError, UnwritableValue) as refused:
                where = f"{place.file}:{place.line}:{place.column}: {each.name}"
                return replace(result, note=f"{where}: {refused}")
            places.append((place, each.name.reveal()))
        again = self.run(correct_test(test, corrections))
        if again.mismatches:
            return replace(again, note=VARIANTS_DIFFER)
        return replace(again, fixed=places, edits=edits)


def _explain_mismatches(mismatches: Sequence[Mismatch]) -> str:
    """Name the checks that only a user can change."""
    found = (each.check for each in mismatches)
    checks = dict.fromkeys(check for check in found if check and check not in FIXED_CHECKS)
    if not checks:
        return "the job has failed"
    return f"only you can say what {' and '.join(checks)} should be"
