"""The engine: the meaning and the run of a pipeline. Imports no connector, backend or Spark."""
