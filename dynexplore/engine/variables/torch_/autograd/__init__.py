"""`torch.autograd.Function`: one node, or its forward inlined."""
