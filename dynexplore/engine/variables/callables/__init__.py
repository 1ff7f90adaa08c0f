"""Functions, bound methods, generators, cached functions, `functools`: everything whose main question is what a call does."""
