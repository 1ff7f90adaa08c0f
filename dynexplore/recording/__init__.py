"""Recordings: the events of a capture as plain data that can be queried, saved and loaded. Layer 6; does not import torch."""
