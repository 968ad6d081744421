"""What proves the product, and never runs it: benchmarks, the demo, the evaluation, the capacity model."""
