"""`torch.Tensor` and its subclasses: TensorVariable, metadata guards, constructors, subscripts, traceable wrapper subclasses."""
