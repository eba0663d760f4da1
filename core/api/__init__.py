"""The contracts that connectors, state backends, user code and the runtime share."""
