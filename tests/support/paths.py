"""Folders and files that tests of several folders read."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"

SPARK_CASES = TESTS / "core" / "spark" / "cases"
SPARK_ANSWERS = TESTS / "core" / "spark" / "answers"
SPARK_EXAMPLES = TESTS / "core" / "expressions" / "spark_examples.json"
SPARK_OUTCOMES = SPARK_EXAMPLES.with_name("spark_examples_outcomes.json")
SAVEPOINT_V1 = TESTS / "state" / "savepoints" / "stored"

USER_CODE = TESTS / "support" / "user_code"
WINDOW_CODE = USER_CODE / "window_code.py"
PROCESS_CLASSES = USER_CODE / "process_classes.py"
EXPIRING_CLASSES = USER_CODE / "expiring_classes.py"
