"""What steps do to rows: plain synchronous objects, tested with literal values.

An operator never waits and knows no asyncio. Rows and watermarks go in, rows come out, each batch
with the name of the stream that it belongs to; what is large comes out in bounded pieces.
"""
