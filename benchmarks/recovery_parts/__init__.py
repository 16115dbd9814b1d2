"""Parts of the benchmark of recoveries."""
