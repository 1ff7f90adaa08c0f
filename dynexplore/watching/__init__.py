"""torch.compile's own captures as recordings. Layer 9; the package is named after the activity because `dynexplore.watch` is the
function.

private_torch knows every private name of torch; listener wraps torch's functions; attempt buffers what it observes until it can be
recorded in order; codes and break_causes convert torch's code objects and messages to events; watch is the entry point.
"""
