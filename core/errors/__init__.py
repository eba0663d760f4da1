"""Problems of a pipeline, the place of an error, and how both are shown."""
