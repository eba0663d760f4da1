"""The contracts that connectors, state backends, user code and the runtime share.

Tests: tests/core/api; contracts are tested by what implements them: state in
tests/state/test_state_sizes.py and tests/state/memory, sources in
tests/connectors/test_batch_readers.py, sinks in tests/connectors/files/test_commit.py, user code in
tests/cli/test_run_user_code.py, window classes in
tests/core/operators/windows/test_user_functions.py.
"""
