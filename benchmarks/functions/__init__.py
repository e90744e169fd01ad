"""Functions that the benchmarks serve."""
