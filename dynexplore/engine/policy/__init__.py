"""What the engine traces and what it leaves alone: marks that users set, rules by file, functions that are
constants.
"""
