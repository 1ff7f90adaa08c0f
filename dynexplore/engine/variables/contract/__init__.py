"""What all trackers share: the base class, the interfaces of the translator and the code generator, and the side-effect journal.

Trackers call the translator and the translator runs trackers, so these files may import each other for type checking. No other file
of `variables/` takes part in an import cycle.

PyTorch's counterpart: torch/_dynamo/variables/base.py, builder.py and side_effects.py.
"""
