"""What all benchmarks share: measuring, describing the machine, reporting."""
