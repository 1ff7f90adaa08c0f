"""The engine: what `optimize(...)` needs, and nothing else. Importing this package imports nothing.

README.md in this folder is a reading guide: which package to read first, and PyTorch's name for each. PyTorch's counterpart:
torch/_dynamo/__init__.py, which imports everything at once.
"""
