"""Small runnable pipelines, one a feature, shipped with the package."""
