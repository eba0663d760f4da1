"""`headrace test`: runs the tests of pipelines over memory, in virtual time.

Tests: tests/cli/pipeline_tests.
"""
