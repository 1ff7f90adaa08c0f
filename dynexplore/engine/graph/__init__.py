"""The FX graph under construction while a frame is interpreted. Layer 2."""
