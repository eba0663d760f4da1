"""`headrace state`: what is kept in checkpoints and savepoints, for people and programs."""
