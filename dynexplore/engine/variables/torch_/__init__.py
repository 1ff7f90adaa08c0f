"""Tensors, modules, autograd functions, higher-order operators, and the rules for torch functions that are no operators."""
