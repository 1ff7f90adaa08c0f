"""Protocols between the translator and its parts, and its interface to the runtime.

The idea: the dependency is circular (the translator calls handlers, which call the translator), so these files may import each
other for type checkers; no other file of `translate/` is part of an import cycle.

In: nothing. Out: `Interpreter`, `TranslationRequest`, `Translation`. PyTorch's counterpart: none.
"""
