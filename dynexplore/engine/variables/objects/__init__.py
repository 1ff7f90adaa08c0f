"""Classes, instances, functions, modules of Python, exceptions, context managers: everything with attributes."""
