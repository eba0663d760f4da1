"""`headrace run --batch`: the same pipeline, once over all there is, on Spark."""
