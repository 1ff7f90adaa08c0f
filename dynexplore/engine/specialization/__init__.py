"""Specialization: which sizes and numbers are static, dynamic or unbacked, and why. Layer 2, above graph and provenance."""
