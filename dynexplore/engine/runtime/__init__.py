"""The engine at run time: cache entries, one frame in and an entry out, backends, wrappers, the public functions."""
