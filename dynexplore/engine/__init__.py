"""The engine: what `optimize(...)` needs, and nothing else. Importing this package imports nothing.

README.md beside this file is the reading tour: which room to read first, and what PyTorch calls each.
PyTorch's counterpart: torch/_dynamo/__init__.py, which imports everything at once.
"""
