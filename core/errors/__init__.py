"""Problems of a pipeline, the place of an error, and how both are shown.

Tests: tests/core/errors; failpoints in tests/recovery/test_kill.py, attribution in
tests/core/job/test_panics.py, old imports in tests/test_public_names.py.
"""
