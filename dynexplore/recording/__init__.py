"""Recordings: the events of a capture as dead data, to be asked, saved and loaded. Layer 6; needs no torch."""
