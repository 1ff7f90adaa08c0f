"""What the engine looks into and what it leaves alone: marks people set, rules by file, functions that are
constants.
"""
