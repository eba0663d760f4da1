"""The operators of `process`: a user class over the rows, states and timers of keys."""
