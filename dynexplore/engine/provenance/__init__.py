"""Sources (how a value is reached) and guards (what must still be true of it). Layer 2."""
