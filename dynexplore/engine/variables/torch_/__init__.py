"""Tensors, nn.Modules, optimizers, autograd functions, and the rules for torch callables that are no operators."""
