"""The live side of a recording: explain, what-if, edited re-runs, live runs, the session of a notebook. Layer 8."""
