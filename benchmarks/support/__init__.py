"""What the benchmarks share: models, measuring, tables."""
