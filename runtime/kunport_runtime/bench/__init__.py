"""Benchmarks of the operators: right first (against float64, on fresh inputs and poisoned outputs), then timed."""
