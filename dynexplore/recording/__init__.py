"""Recordings: the events of a capture as plain data, to be queried, saved and loaded. Layer 6; needs no torch."""
