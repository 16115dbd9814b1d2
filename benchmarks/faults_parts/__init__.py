"""Placed faults, driven: a world of real processes, stories that users live in it, and the judgement."""
