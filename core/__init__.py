"""The engine: pipelines, plans and their execution.

Core imports no connector and no state backend; Spark is imported in `core/spark` alone.
"""
