"""Protocols between the translator and its parts, and its interface to the runtime.

The idea is circular (the translator calls handlers, which call the translator), so these files may name each other for
type checkers; no other file of `translate/` takes part in a circle.
"""
