"""The operator of `process`: a user's class over rows, states and timers of keys."""
