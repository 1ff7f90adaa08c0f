"""The second opinion: checks each symbolic step against the meaning of the instruction, and the real run against both. Layer 7.

A store with this feature enabled has a `StepChecker` (step_checker.py); see docs/design/programs.md, D40.
"""
