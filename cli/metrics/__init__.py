"""Monitoring of a running job: metrics for Prometheus, and health.

Tests: tests/cli/metrics.
"""
