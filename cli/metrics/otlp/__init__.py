"""Export of a job's metrics and spans to a receiver of OpenTelemetry; only here is its SDK used.

Tests: tests/cli/metrics/test_otlp_export.py.
"""
