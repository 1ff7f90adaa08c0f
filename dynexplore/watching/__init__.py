"""torch.compile's own captures as recordings. Layer 9; it bears this name because `dynexplore.watch` is the function.

private_torch knows every private name of torch; listener stands in the place of torch's functions; attempt keeps what it sees until
it can be told in order; codes and break_causes put torch's code and messages into the words of the events; watch is the way in.
"""
