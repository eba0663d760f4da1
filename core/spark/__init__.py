"""The second executor: a plan as Spark's DataFrames, and our operators inside of its executors.

Nothing here is loaded before somebody asks for `--batch`, and pyspark is there only with the extra
of that name.
"""
