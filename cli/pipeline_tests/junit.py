"""The results of tests as a JUnit file. Tests: tests/cli/pipeline_tests/test_runs.py."""

from __future__ import annotations

import os
from collections.abc import Sequence
from xml.etree import ElementTree

import click

from headrace.cli.errors import Refusal
from headrace.cli.pipeline_tests.report import CaseResult, format_mismatch


def check_junit_path(path: str) -> None:
    """Check that a JUnit file can be written, before the tests run. Raises Refusal."""
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise Refusal(f'--junit: there is no folder "{folder}"', "make it first")


def write_junit(path: str, results: Sequence[CaseResult]) -> None:
    """Write a JUnit file with a case for each test."""
    root = ElementTree.Element("testsuites")
    for file in dict.fromkeys(each.file for each in results):
        of_file = [each for each in results if each.file == file]
        failures = sum(bool(each.mismatches) for each in of_file)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=file,
            tests=str(len(of_file)),
            failures=str(failures),
            errors="0",
            skipped=str(sum(each.outcome == "skipped" for each in of_file)),
        )
        for each in of_file:
            _add_case(suite, each)
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, "utf-8", xml_declaration=True)


def _add_case(suite: ElementTree.Element, result: CaseResult) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=result.file, name=result.name, time=f"{result.seconds:.3f}"
    )
    if result.outcome == "skipped":
        ElementTree.SubElement(case, "skipped", message=result.skipped)
    if result.mismatches:
        messages = [line for each in result.mismatches for line in format_mismatch(each)]
        message = f"{result.mismatches[0].message} {result.variant}".strip()
        failure = ElementTree.SubElement(case, "failure", message=message)
        failure.text = click.unstyle("\n".join(messages))
