"""The command line: puts the parts together, prints, and nothing else."""
