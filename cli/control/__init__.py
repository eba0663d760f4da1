"""A running job under control: a Unix socket with a small HTTP/JSON API, and who speaks to it."""
