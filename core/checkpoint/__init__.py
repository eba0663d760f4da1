"""Checkpoints of a job: manifests, storage, counters, compatibility with a changed pipeline."""
