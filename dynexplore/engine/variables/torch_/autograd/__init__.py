"""`torch.autograd.Function`: `apply` as one node, or its `forward` inlined."""
