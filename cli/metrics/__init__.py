"""Monitoring of a running job: metrics for Prometheus, and health."""
