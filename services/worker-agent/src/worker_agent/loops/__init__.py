"""Loops of the worker: wait, ask the core, apply."""
