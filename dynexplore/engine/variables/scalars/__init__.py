"""Scalar values: constants, dynamic and symbolic numbers, strings, enum members."""
