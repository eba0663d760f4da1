"""Small runnable pipelines, one per feature, shipped with the package."""
