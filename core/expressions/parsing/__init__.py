"""The lexer and parser of expressions."""
