"""Adapters of the worker: streams, runner, kernel."""
