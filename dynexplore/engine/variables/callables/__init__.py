"""Callables: functions, bound methods, cells, generators, cached functions, `functools`."""
