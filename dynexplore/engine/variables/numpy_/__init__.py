"""numpy arrays: those the graph knows, and those made of known numbers."""
