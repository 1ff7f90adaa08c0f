"""The second opinion: each symbolic step checked against what the instruction means, and the real run beside it. Layer 7.

`StepChecker` (step_checker.py) is what a watched store has; see docs/design/programs.md, D40.
"""
