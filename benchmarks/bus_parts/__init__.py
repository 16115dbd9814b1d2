"""The parts of `bench bus`."""
