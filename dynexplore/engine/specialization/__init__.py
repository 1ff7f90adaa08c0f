"""Which sizes and numbers are static, dynamic, unbacked or inputs, and why. Layer 2, above graph and provenance."""
