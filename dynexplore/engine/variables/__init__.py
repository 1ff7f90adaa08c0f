"""Variable trackers: what the symbolic interpreter knows about each Python value. Layer 3.

PyTorch's counterpart: torch/_dynamo/variables/.
"""
