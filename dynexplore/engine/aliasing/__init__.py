"""Aliasing: what a graph aliases and mutates, and whether its backend may compile it. Layer 2, above graph and provenance."""
