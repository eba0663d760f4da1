"""Diagnosis of a running job: what holds its output back, and the setting that would change it.

Tests: tests/core/diagnosis.
"""
