"""Variable trackers: what the symbolic interpreter knows of each Python value. Layer 3."""
