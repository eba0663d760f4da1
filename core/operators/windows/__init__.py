"""Windows of time: which rows belong together by when they happened, and when they are put out."""
