"""Tools that find out what is wrong and make it small: diagnosis, minifier, replay, profilers, reports, export. Layer 9."""
