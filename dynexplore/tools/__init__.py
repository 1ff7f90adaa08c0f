"""Debugging tools: diagnosis, minifier, replay, profilers, reports, export. Layer 9."""
