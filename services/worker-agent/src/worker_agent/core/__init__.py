"""Decisions of the worker: no clock, no I/O, no randomness."""
