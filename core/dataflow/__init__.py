"""The path of batches within an attempt: channels, gates, operator tasks and output edges."""
