"""What a pipeline means and how it runs. Imports no connector, no state backend and no Spark."""
