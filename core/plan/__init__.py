"""The logical plan: a typed and immutable description of a pipeline, before anything runs.

Both executors run this plan, so that it has everything that defines the result and nothing that
only affects performance: no thread, no channel, no Spark.

    plan, problems = build_plan(load_pipeline(path, connectors))
    print(explain(plan, "text"))

Tests: tests/core/plan; fingerprints in tests/core/checkpoint/test_compatibility.py.
"""
