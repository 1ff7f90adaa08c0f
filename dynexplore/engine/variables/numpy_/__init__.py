"""NumPy arrays: arrays that are tensors in the graph, and arrays whose content is known at trace time."""
