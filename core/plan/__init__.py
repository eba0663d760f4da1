"""The logical plan: what a pipeline does, typed and immutable, before anything runs.

Both executors run this plan, so it holds everything that has a meaning and nothing that has a
speed: no thread, no channel, no Spark. `build` makes it from a document, `explain` shows it.
"""
