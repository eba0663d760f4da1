"""The backend `rocksdb`: state in memory as far as it fits, and on disk beyond."""
