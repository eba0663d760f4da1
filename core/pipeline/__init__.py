"""The YAML document as typed objects: from the bytes of a file to sound parts and every problem.

Reading goes in one direction, and each station knows only the one before it:

    bytes -> File -> nodes with marks -> overridden -> interpolated data -> pydantic parts -> Loaded

What a user can get wrong is a `Problem` with a place in the file; nothing here raises for it.
"""
