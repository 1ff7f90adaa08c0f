"""`torch.nn.Module`, parameters, buffers, and optimizers."""
