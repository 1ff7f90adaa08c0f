"""Lane two: the real run beside the symbolic one. `Witness` (witness.py) is what a watched store has; see DESIGN section 3."""
