"""`torch.nn.Module`, parameters and buffers, optimizers."""
