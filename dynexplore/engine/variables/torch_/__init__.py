"""Tensors, modules, autograd functions, higher-order operators, and rules for torch functions that are not operators."""
