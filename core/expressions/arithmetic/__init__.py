"""Arithmetic with the results of Spark: decimals, wide integers, rounding, floats."""
