"""Control of a running job: a Unix socket with a small HTTP/JSON API, and its clients."""
