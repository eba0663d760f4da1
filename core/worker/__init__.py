"""The worker: subtasks built from the plan, run, and measured."""
