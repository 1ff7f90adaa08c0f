"""The FX graph that is being built while a frame is interpreted. Layer 2."""
