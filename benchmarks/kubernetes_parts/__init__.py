"""Parts of the benchmarks on Kubernetes."""
