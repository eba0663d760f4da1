"""A running job for monitoring: its figures as Prometheus takes them, and whether it is well."""
