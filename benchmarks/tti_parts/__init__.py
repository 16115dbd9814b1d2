"""The parts of `tti`: each measures on a cluster of its own and enters its figures."""
