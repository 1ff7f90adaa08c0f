"""What every tracker knows: its base class, what it may ask of the translator and of the code generator, the journal.

The idea is circular (a tracker asks the translator, which runs trackers), so these files may name each other for type
checkers; no other file of `variables/` takes part in a circle.
"""
